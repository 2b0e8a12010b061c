(() => {
  const { config, figures } = JSON.parse(document.getElementById("figures").textContent);
  const options = {
    config,
    mode: "vega-lite",
    ast: true, // expressions are interpreted, so that the page needs no eval
    actions: false,
    renderer: "svg",
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  const cell = (name, text, header) => {
    const found = document.createElement(name);
    found.textContent = text;
    if (header) found.scope = header;
    return found;
  };

  const tabulate = (table, columns) => {
    const names = Object.keys(columns);
    const head = document.createElement("tr");
    names.forEach((name) => head.append(cell("th", name, "col")));
    const body = document.createElement("tbody");
    (columns[names[0]] || []).forEach((_, i) => {
      const row = document.createElement("tr");
      names.forEach((name) => row.append(cell("td", columns[name][i])));
      body.append(row);
    });
    const top = document.createElement("thead");
    top.append(head);
    table.replaceChildren(top, body);
  };

  // A specification has one fixed width. Fit its panels to the available width, in fewer columns on
  // a narrow screen.
  const fitted = (spec, room) => {
    const found = structuredClone(spec);
    const panels = found.concat || [found];
    const columns = found.concat ? Math.max(1, Math.min(found.columns, Math.floor(room / 200))) : 1;
    const beside = found.usermeta.beside;
    const width = Math.floor(Math.min(room, columns === 1 ? 620 : 960) / columns) - beside - (columns === 1 ? 0 : 14);
    panels.forEach((panel) => {
      panel.height = Math.round(panel.height * Math.min(1.35, Math.max(0.75, width / panel.width)));
      panel.width = Math.max(60, width);
    });
    if (found.concat) found.columns = columns;
    return found;
  };

  const show = async (figure) => {
    const chosen = [...figure.querySelectorAll("select")].map((select) => select.value);
    const variants = figures[figure.id];
    const variant = variants[chosen.join(",")];
    const chart = figure.querySelector(".chart");
    chart.setAttribute("aria-label", variant.description);
    figure.querySelector("figcaption").textContent = variant.caption;
    figure.querySelector(".chart-title").textContent = variant.title;
    tabulate(figure.querySelector("details table"), variant.columns);
    if (figure.drawn) figure.drawn.finalize();
    figure.room = chart.clientWidth;
    figure.drawn = await window.vegaEmbed(chart, fitted(variant.spec, figure.room), options);
    figure.dataset.shown = chosen.join(",");
  };

  const resized = new ResizeObserver((entries) => {
    entries.map((entry) => entry.target.closest("figure")).forEach((figure) => {
      if (figure.drawn && Math.abs(figure.querySelector(".chart").clientWidth - figure.room) > 20) show(figure);
    });
  });

  const all = [...document.querySelectorAll("figure[id]")];
  all.forEach((figure) => {
    figure.querySelectorAll("select").forEach((select) => select.addEventListener("change", () => show(figure)));
  });
  (async () => {
    for (const figure of all) {
      await show(figure);
      resized.observe(figure.querySelector(".chart"));
    }
  })();

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
