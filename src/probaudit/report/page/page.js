(() => {
  const { config, figures, markdown, sliders } = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const options = {
    config,
    mode: "vega-lite",
    ast: true, // expressions are interpreted, so that the page needs no eval
    actions: false,
    renderer: "svg",
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };
  // letters on paper are no larger than those of tables
  const small = {
    ...config,
    axis: { ...config.axis, labelFontSize: 10, titleFontSize: 10 },
    legend: { ...config.legend, labelFontSize: 10 },
    text: { ...config.text, fontSize: 10 },
  };
  const every = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const created = (name, text = "", more = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, more);

  const theme = () => root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const narrow = matchMedia("(max-width: 63.99rem)");
  let printing = false;

  // ---- charts

  const joined = (parts) => (new Set(parts).size === 1 ? parts[0] : parts.join(" to "));
  const tabulate = (table, { columns, shown, words }) => {
    const kind = (name, text, most) => ({
      className: `${text.length < most ? "short" : "long"}${words.includes(name) ? " words" : ""}`,
    });
    const head = created("tr");
    Object.keys(shown).forEach((name) => head.append(created("th", name, { scope: "col", ...kind(name, name, 14) })));
    const body = created("tbody");
    (Object.values(columns)[0] || []).forEach((_, i) => {
      const row = created("tr");
      Object.entries(shown).forEach(([whole, names]) => {
        const text = joined(names.map((name) => columns[name][i]));
        row.append(created("td", text, kind(whole, text, 20)));
      });
      body.append(row);
    });
    const top = created("thead");
    top.append(head);
    table.replaceChildren(top, body);
  };

  const lines = (text, letters) =>
    text.split(" ").reduce((found, word) => {
      const last = found.at(-1);
      if (!last) return [word];
      return `${last} ${word}`.length <= letters ? [...found.slice(0, -1), `${last} ${word}`] : [...found, word];
    }, []);

  const [letter, wide, LABEL] = [6.6, 7.4, 14]; // px, average character of a label, and a wide one; line
  const SQUARE = 212; // px on paper, of a diagram above a histogram
  const END = 16; // px right of a panel, for half of the last label of its axis

  // px of a category; lines are close on paper, and few of them are further apart
  const lineOf = (count) => {
    const few = count <= 4 ? 1.35 : 1;
    return few * (printing ? Math.max(13, Math.min(18, 210 / count)) : 26);
  };

  // Data come as columns; Vega-Lite reads records.
  const records = (columns) => {
    const names = Object.keys(columns);
    const rows = columns[names[0]] ?? [{}];
    return rows.map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
  };
  // Smaller panels have smaller points, so that these do not hide their intervals.
  const shrink = (panel) => {
    const share = Math.min(1, Math.max(0.3, (panel.width / 340) ** 2)) * (printing ? 0.7 : 1);
    const scaled = (size, least) => Math.max(least, size * share);
    panel.layer.forEach(({ data, mark }) => {
      if (mark.type === "point" && mark.size) mark.size = scaled(mark.size, Math.min(mark.size, 28));
      data?.values.forEach((row) => row.size && (row.size = scaled(row.size, 20)));
    });
  };
  const unpack = (part) => {
    if (part.data) part.data.values = records(part.data.values);
    (part.layer || part.concat || []).forEach(unpack);
  };

  const outer = (count, columns) => ({ x: (k) => k + columns >= count, y: (k) => k % columns === 0 });

  // Labels of several lines are centred on their tick; Vega aligns the first line with it.
  const inLines = (axis, width) => {
    const names = JSON.parse(axis.labelExpr.replace(/\[datum\.value\]$/, ""));
    const parts = names.map((name) => lines(name, width / wide).slice(0, 3));
    axis.labelExpr = `${JSON.stringify(parts)}[datum.value]`;
    axis.labelLimit = width; // of a single word
    const condition = [2, 3].map((count) => ({
      test: `indexof(${JSON.stringify(parts.flatMap((part, k) => (part.length === count ? k : [])))}, datum.value) >= 0`,
      value: ((1 - count) * LABEL) / 2,
    }));
    axis.labelOffset = { condition, value: 0 };
    return Math.max(...parts.map((part) => part.length));
  };

  // A specification has one fixed width. Fit its panels to the available width, in fewer columns on
  // a narrow screen. Each category is a line in px high, given the number of them. Panels are
  // `stretch` times as high as usual.
  const fitted = (spec, room, large, stretch = 1) => {
    const found = structuredClone(spec);
    unpack(found);
    const panels = found.concat || [found];
    const even = panels.every((panel) => panel.height === panel.width);
    const most = Math.max(1, Math.floor(room / (panels[0].encoding.y.axis.values ? 240 : 190))); // columns
    const four = panels.length === 4 && found.columns === 3; // 4 or 2 beside each other, not 3 and 1
    const columns = !found.concat ? 1 : Math.min(most, !four ? found.columns : most < 4 ? 2 : 4);
    const widest = columns > 1 || large === "wide" ? 1240 : large ? 760 : 620;
    const beside = Math.min(found.usermeta.beside, Math.round(room * (printing ? 0.5 : 0.45))); // long names are cut off
    // px on paper, where a chart takes at most a third of the page
    const squares = printing && panels[0].height === panels[0].width;
    const limit = !squares || columns > 1 ? Infinity : (panels.length > 1 ? SQUARE : 300) * stretch;
    const low = !printing || columns === 1 ? 1 : panels.length > columns ? 0.7 : 0.78; // panels on paper
    const after = Math.max(found.usermeta.after, END); // room for labels at the right
    const width = Math.min(limit, Math.floor(Math.min(room, widest) / columns) - beside - after - (columns === 1 ? 0 : 14));
    panels.forEach((panel) => {
      const ratio = width / panel.width;
      const categories = panel.encoding.y.axis.values;
      const square = panel.height === panel.width;
      const highest = square || large === "large" ? 2 : printing ? 0.5 : 1.35;
      panel.height *= Math.min(highest, Math.max(printing ? 0.4 : square ? 0.5 : 0.75, ratio));
      if (categories) panel.height = categories.length * Math.min(lineOf(categories.length), panels.length > 2 ? 22 : Infinity);
      if (square) panel.height = Math.min(width, width * low * stretch);
      else panel.height *= stretch;
      panel.height = Math.round(panel.height);
      panel.width = Math.max(60, width);
      Object.entries({ x: panel.width, y: panel.height }).forEach(([side, length]) => {
        const axis = panel.encoding[side].axis;
        if (axis.labelLimit && beside < found.usermeta.beside) {
          const high = inLines(axis, beside - 22);
          if (side === "y") panel.height = Math.max(panel.height, categories.length * (high * LABEL + 8) * Math.max(1, stretch));
        }
        const tick = length < 260 ? 80 : length < 420 ? 60 : 75; // px
        if (axis.tickCount) axis.tickCount = Math.max(side === "x" && length > 110 ? 3 : 2, Math.min(8, Math.floor(length / tick)));
        if (axis.title) axis.title = lines(axis.title, Math.max(length, 120) / letter);
      });
      shrink(panel);
      if (panel.title && printing) panel.title.fontSize = 11;
      if (panel.title) panel.title.text = lines(panel.title.text, Math.max(panel.width + after, 120) / letter);
      panel.layer.flatMap((layer) => [layer.encoding.color, layer.encoding.shape]).forEach((named) => {
        if (!named?.legend) return;
        const longest = Math.max(...named.scale.domain.map((name) => name.length)) * letter + 30;
        const across = columns * (width + beside) - beside;
        named.legend.columns = Math.max(1, Math.floor(across / longest));
        const right = printing && large === "large" && room > 400;
        named.legend.labelLimit = right ? 160 : across + after - 30;
        if (right) Object.assign(named.legend, { orient: "right", columns: 1 });
        if (longest > (right ? 160 : across + after)) {
          const wrapped = named.scale.domain.map((name) => [name, lines(name, (right ? 130 : across + after - 30) / wide)]);
          named.legend.labelExpr = `(${JSON.stringify(Object.fromEntries(wrapped))})[datum.label]`;
        }
      });
    });
    if (found.concat) found.columns = columns;
    // squares have the same axes: titles only at the left and at the bottom
    if (columns > 1 && even) {
      Object.entries(outer(panels.length, columns)).forEach(([side, isOuter]) => {
        const titles = panels.map((panel) => panel.encoding[side].axis.title).filter(Boolean);
        if (new Set(titles.map(String)).size !== 1) return;
        panels.forEach((panel, k) => (panel.encoding[side].axis.title = isOuter(k) ? titles[0] : null));
      });
    }
    return found;
  };

  const chosen = (figure) => every("select", figure).map((select) => select.value).join(",");
  const sizeOf = (figure) => ["large", "wide"].find((name) => figure.classList.contains(name)) || "";

  const markers = {}; // by the name of a figure, where a slider puts its vertical line
  const marked = (figure, spec) => {
    if (figure.id in markers) spec.params[0].value = markers[figure.id];
    return spec;
  };

  const rowsOfPanels = ({ concat, columns, height }) =>
    concat ? concat.flatMap((_, k) => (k % columns ? [] : [concat.slice(k, k + columns).map((panel) => panel.height)])) : [[height]];

  const show = async (figure, room = figure.querySelector(".chart").clientWidth) => {
    const choice = chosen(figure);
    const variant = figures[figure.id][choice];
    const chart = figure.querySelector(".chart");
    chart.setAttribute("aria-label", variant.description);
    figure.querySelector("figcaption").textContent = variant.caption;
    figure.querySelector(".chart-title").textContent = variant.title;
    const table = figure.querySelector(".numbers table");
    if (table) tabulate(table, variant);
    if (figure.drawn) figure.drawn.finalize();
    figure.room = room || 620; // a folded section has no width
    const draw = async (width) => {
      const spec = marked(figure, fitted(variant.spec, width, sizeOf(figure), figure.stretch));
      figure.plotted = rowsOfPanels(spec).reduce((sum, row) => sum + Math.max(...row), 0);
      figure.drawn = await window.vegaEmbed(chart, spec, printing ? { ...options, config: small } : options);
      return chart.querySelector("svg");
    };
    let svg = await draw(figure.room);
    const excess = svg.viewBox.baseVal.width - room;
    const lost = variant.spec.columns > 1 && excess < -40;
    if (room && (excess > 0 || lost)) {
      figure.drawn.finalize();
      svg = await draw(figure.room - excess - 2); // labels took more or less room than estimated
    }
    svg.ariaHidden = "true"; // the chart has one description
    figure.dataset.shown = choice;
  };

  // A click on a category, or on its label, chooses it in another figure.
  const open = (figure, event) => {
    const { view } = figure.drawn;
    const svg = figure.querySelector(".chart svg");
    const box = svg.getBoundingClientRect();
    const y = ((event.clientY - box.top) * svg.viewBox.baseVal.height) / box.height - view.origin()[1];
    const place = Math.round(view.scale("y").invert(y));
    const other = document.getElementById(figure.dataset.opens);
    const select = other.querySelector("select");
    if (!select.options[place]) return;
    select.value = place;
    show(other);
    const { top, bottom } = other.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) other.scrollIntoView({ block: "nearest" });
  };

  // ---- copy and save

  const status = document.getElementById("status");
  const number = /^[−-]?\d{1,3}(,\d{3})*(\.\d+)?$|^[−-]?\d+(\.\d+)?$/;
  const field = (text) => {
    const plain = number.test(text) ? text.replaceAll(",", "").replace("−", "-") : text;
    const safe = plain === text && /^[=+@\t\r]/.test(plain) ? `'${plain}` : plain; // no formulas in a spreadsheet
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (rows) => rows.map((row) => row.map(field).join(",") + "\r\n").join("");
  const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));

  const resolved = (text) => {
    const probe = document.body.appendChild(created("i", "", { hidden: true }));
    const found = text.replace(/var\((--[\w-]+)\)/g, (variable) => {
      probe.style.color = variable;
      return getComputedStyle(probe).color;
    });
    probe.remove();
    return found;
  };

  // The chart with its title and caption, in the colours of the screen.
  const picture = async (figure) => {
    const { spec, title, caption } = figures[figure.id][chosen(figure)];
    const width = spec.columns > 1 ? 960 : 620;
    const whole = marked(figure, fitted(spec, width, sizeOf(figure) && "large"));
    const own = whole.title ? [whole.title.text].flat() : [];
    whole.title = {
      text: lines(title, width / 8),
      subtitle: [...lines(caption, width / 7), ...own].filter(Boolean),
      anchor: "start",
      frame: "group",
    };
    whole.padding = 12;
    const colours = { ...config, background: "var(--paper)" };
    const known = JSON.parse(resolved(JSON.stringify({ spec: whole, config: colours })));
    return window.vegaEmbed(created("div"), known.spec, { ...options, config: known.config });
  };

  const WHOLE = "pre { white-space: pre-wrap; overflow: hidden; }"; // a picture does not scroll
  // The headline and the first section, which the browser draws from their markup.
  const firstScreen = async () => {
    const parts = [document.querySelector("header"), document.querySelector("main section")];
    const [top, bottom] = [parts[0].getBoundingClientRect(), parts[1].getBoundingClientRect()];
    const [width, height, margin] = [top.width, bottom.bottom - top.top, 24];
    const body = created("body");
    body.append(...parts.map((part) => part.cloneNode(true)));
    every("button, details", body).forEach((part) => part.remove());
    const inside = [created("style", `${document.querySelector("style").textContent}${WHOLE}`), body];
    const markup = inside.map((part) => new XMLSerializer().serializeToString(part)).join("");
    const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" data-theme="${theme()}">`;
    const drawing = `${open}<foreignObject width="100%" height="100%">${markup}</foreignObject></svg>`;
    const image = created("img", "", { src: `data:image/svg+xml,${encodeURIComponent(drawing)}` });
    await image.decode();
    const canvas = created("canvas", "", { width: 2 * (width + 2 * margin), height: 2 * (height + 2 * margin) });
    const context = canvas.getContext("2d");
    context.fillStyle = resolved("var(--paper)");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(2, 2);
    context.drawImage(image, margin, margin, width, height);
    return canvas;
  };

  const content = {
    code: async (button) => button.closest(".command").querySelector("code").textContent,
    summary: async () => markdown,
    csv: async (button) => {
      const place = button.closest("figure, .table");
      if (!place.matches("figure")) return csv(rowsOf(place.querySelector("table")));
      const names = Object.keys(figures[place.id][chosen(place)].columns);
      const rows = records(figures[place.id][chosen(place)].columns);
      return csv([names, ...rows.map((row) => Object.values(row))]);
    },
    svg: async (button) => {
      const drawn = await picture(button.closest("figure"));
      const text = await drawn.view.toSVG();
      drawn.finalize();
      return text;
    },
    png: async (button) => {
      const drawn = button.closest("figure") && (await picture(button.closest("figure")));
      const canvas = await (drawn ? drawn.view.toCanvas(2) : firstScreen());
      if (drawn) drawn.finalize();
      // toBlob waits until the browser is idle, which can take seconds
      const bytes = atob(canvas.toDataURL("image/png").split(",")[1]);
      return new Blob([Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))], { type: "image/png" });
    },
  };
  const types = { csv: "text/csv;charset=utf-8", svg: "image/svg+xml", png: "image/png" };

  const written = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(created("textarea", text));
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      if (!copied) throw new Error();
    }
  };

  const copy = async (kind, button) => {
    if (kind === "png") return navigator.clipboard.write([new ClipboardItem({ "image/png": content.png(button) })]);
    return written(await content[kind](button));
  };

  const save = async (kind, button) => {
    const place = button.closest("figure, section") || document.querySelector("main section");
    const name = `${document.title}-${place.id}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
    const address = URL.createObjectURL(new Blob([await content[kind](button)], { type: types[kind] }));
    created("a", "", { href: address, download: `${name}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };

  const act = async (button, action, word) => {
    const label = button.dataset.label || (button.dataset.label = button.textContent);
    try {
      await action();
      button.textContent = word;
    } catch {
      button.textContent = "Not allowed by the browser";
    }
    status.textContent = `${label}: ${button.textContent}`;
    setTimeout(() => (button.textContent = label), 1500);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && button.dataset.copy) act(button, () => copy(button.dataset.copy, button), "Copied");
    if (button && button.dataset.save) act(button, () => save(button.dataset.save, button), "Saved");
    every(".export[open]").forEach((menu) => menu.contains(event.target) || (menu.open = false));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    every(".export[open]").forEach((menu) => {
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    tip.hidden = true;
  });

  // ---- threshold sliders

  every(".slider").forEach((block) => {
    const { positions, markers: places } = sliders[block.id];
    const range = block.querySelector("input[type=range]");
    const ratio = block.querySelector("input[type=number]");
    const cells = every(".result tbody tr", block).map((row) => every("td", row));
    const [words, label] = every(".happens > *", block);

    const outputs = every(".result tbody th", block).map((cell) => cell.textContent);
    block.querySelector(".result table").style.setProperty("--measures", cells[0].length + 1);
    const rows = positions.flatMap((at) =>
      outputs.map((name, j) => [`${at.percent}%`, `${at.ratio}`, name, ...at.cells.map((cell) => cell[j])]));
    block.querySelector(".numbers tbody").append(...rows.map(([first, ...others]) => {
      const row = created("tr");
      row.append(created("th", first, { scope: "row" }), ...others.map((text) => created("td", text)));
      row.cells[2].className = "words";
      return row;
    }));

    const update = (typing) => {
      const place = range.value - range.min;
      const now = positions[place];
      block.querySelector("output").textContent = `${now.percent}%`;
      range.setAttribute("aria-valuetext", now.label);
      label.textContent = now.label;
      words.textContent = now.words;
      if (!typing) ratio.value = now.ratio;
      cells.forEach((row, j) => row.forEach((cell, i) => (cell.textContent = now.cells[i][j])));
      Object.keys(places).forEach((name) => {
        markers[name] = places[name][place];
        const drawn = document.getElementById(name).drawn;
        if (drawn) drawn.view.signal("marker", markers[name]).runAsync();
      });
    };

    const off = (position) => Math.abs(Math.log(position.ratio / ratio.value));
    const typed = () => {
      if (!(ratio.value > 0)) return;
      range.value = positions.reduce((best, one) => (off(one) < off(best) ? one : best)).percent;
      update(true);
    };

    // Nothing moves while the slider does: the words have room for the longest ones.
    const happens = block.querySelector(".happens");
    const longest = positions.reduce((best, at) =>
      at.words.length + at.label.length > best.words.length + best.label.length ? at : best);
    const reserve = () => {
      happens.style.minHeight = "";
      if (narrow.matches) return;
      [words.textContent, label.textContent] = [longest.words, longest.label];
      happens.style.minHeight = `${happens.offsetHeight}px`;
      update(true);
    };
    new ResizeObserver(reserve).observe(block.querySelector(".costs"));

    range.addEventListener("input", () => update(false));
    ratio.addEventListener("input", typed);
    ratio.addEventListener("change", () => update(false)); // the ratio of the nearest threshold
    block.querySelector(".live").hidden = false;
    block.classList.add("ready");
    update(false);
  });

  // ---- tooltips of table headers

  const tip = document.getElementById("tip");
  const explain = (name) => {
    tip.textContent = name.dataset.tip;
    tip.hidden = false;
    const at = name.getBoundingClientRect();
    const low = at.bottom + tip.offsetHeight + 12 > innerHeight;
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${low ? at.top - tip.offsetHeight - 6 : at.bottom + 6}px`;
  };
  every(".tip").forEach((name) => {
    name.dataset.tip = name.title;
    name.setAttribute("aria-describedby", "tip");
    name.removeAttribute("title"); // otherwise the browser adds its own tooltip
    ["mouseenter", "focus", "click"].forEach((on) => name.addEventListener(on, () => explain(name)));
    ["mouseleave", "blur"].forEach((on) => name.addEventListener(on, () => (tip.hidden = true)));
  });

  // ---- contents

  const links = new Map(every("nav a").map((link) => [document.getElementById(link.hash.slice(1)), link]));
  const list = document.querySelector("nav details");
  let target = null; // the section that the reader chose, until the next scroll by hand

  const mark = () => {
    const sections = [...links.keys()];
    const above = sections.filter((section) => section.getBoundingClientRect().top < innerHeight * 0.3);
    const atEnd = scrollY > 0 && scrollY + innerHeight >= root.scrollHeight - 4;
    const here = target || (atEnd ? sections.at(-1) : above.at(-1) || sections[0]);
    links.forEach((link, section) => link.toggleAttribute("aria-current", section === here));
    links.get(here)?.setAttribute("aria-current", "true");
    document.getElementById("here").textContent = narrow.matches && here ? `: ${links.get(here).textContent}` : "";
  };
  const unfold = (section) => every(":scope > .fold", section).forEach((fold) => (fold.open = true));
  const go = (section) => {
    if (!links.has(section)) return;
    target = section;
    unfold(section);
    if (narrow.matches) list.open = false;
    mark();
  };
  const fold = () => {
    list.open = !narrow.matches;
    mark();
  };
  links.forEach((link, section) => link.addEventListener("click", () => go(section)));
  addEventListener("hashchange", () => go(document.getElementById(location.hash.slice(1))));
  ["wheel", "touchmove", "keydown"].forEach((on) => addEventListener(on, () => (target = null), { passive: true }));
  addEventListener("scroll", mark, { passive: true });
  narrow.addEventListener("change", fold);
  fold();
  if (location.hash) go(document.getElementById(location.hash.slice(1)));

  // ---- layout

  const arrange = () => {
    every(".bar").forEach((bar) => {
      const labels = every("li", bar);
      every("rect + text", bar).forEach((text, i) => {
        const part = text.parentNode;
        const width = printing ? (300 * parseFloat(part.getAttribute("width"))) / 100 : part.getBoundingClientRect().width;
        const fits = text.getComputedTextLength() + 11 <= width;
        text.classList.toggle("fits", fits);
        labels[i].classList.toggle("fits", fits);
      });
    });
    // a table that does not fit beside its chart stands below it
    every(".large > .numbers[open]").forEach((numbers) => {
      numbers.classList.remove("below");
      numbers.classList.toggle("below", overflows(numbers.querySelector(".scroll")));
    });
    every(".large > .numbers[open]:not(.below) > .scroll").forEach(whole);
    every(".scroll").filter((scroll) => scroll.checkVisibility()).forEach(cue);
    every(".table").forEach((table) => {
      table.querySelector(".cue").hidden = !overflows(table.querySelector(".scroll"));
    });
    every("figure > .numbers[open]").forEach((numbers) => {
      numbers.classList.toggle("cut", overflows(numbers.querySelector(".scroll")));
    });
  };
  // A long table beside a chart scrolls, and its box ends after a row.
  const whole = (scroll) => {
    scroll.style.maxHeight = "";
    const limit = parseFloat(getComputedStyle(scroll).maxHeight);
    const top = scroll.getBoundingClientRect().top - scroll.scrollTop;
    const bottoms = every("tr", scroll).map((row) => row.getBoundingClientRect().bottom - top);
    if (bottoms.at(-1) > limit) scroll.style.maxHeight = `${bottoms.findLast((bottom) => bottom <= limit)}px`;
  };
  const overflows = (scroll) => scroll.scrollWidth > scroll.clientWidth + 1;
  const cue = (scroll) =>
    scroll.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 1);
  document.addEventListener("scroll", ({ target }) => target.matches?.(".scroll") && cue(target), true);

  // Lines of code break between words, not at hyphens; a long path breaks after a slash. What goes on
  // in the next line is indented.
  every("code").forEach((code) => {
    const words = (text) => text.split(/(\s+|(?<=\/))/).filter(Boolean).map((part) => (part.trim() ? created("span", part) : part));
    const line = (text) => {
      const found = created("span", "", { className: "line" });
      found.append(...words(text));
      return found;
    };
    const whole = code.textContent;
    code.replaceChildren(...(code.matches("pre > code") ? whole.split(/(?<=\n)/).map(line) : words(whole)));
  });

  const resized = new ResizeObserver((entries) => {
    if (printing) return;
    arrange();
    const changed = entries
      .map((entry) => entry.target.closest("figure"))
      .filter((figure) => figure?.drawn && figure.querySelector(".chart").clientWidth)
      .filter((figure) => Math.abs(figure.querySelector(".chart").clientWidth - figure.room) > 20);
    if (changed.length) redraw(changed);
  });
  resized.observe(document.querySelector("main"));
  // numbers that have room beside a square chart, or below a few classes
  const withRoom = (numbers) =>
    numbers.matches(".large > *") || (numbers.matches("[data-opens] > *") && every("tbody tr", numbers).length <= 8);
  const opening = every(".body > figure > .numbers").filter(withRoom);
  opening.forEach((numbers) => (numbers.open = !narrow.matches));
  arrange();
  opening.forEach((numbers) => (numbers.open &&= !numbers.matches(".below")));
  const unfolded = () => {
    arrange();
    if (!printing) balance();
  };
  document.addEventListener("toggle", unfolded, true);
  every("figure[data-opens]").forEach((figure) =>
    figure.querySelector(".chart").addEventListener("click", (event) => open(figure, event)),
  );
  every("figure[id] select").forEach((select) => select.addEventListener("change", () => show(select.closest("figure"))));

  // Of two charts beside each other, the lower one is stretched to end with the other.
  const balance = async () => {
    const drawn = every("figure[id]").filter((figure) => figure.drawn && figure.checkVisibility());
    const box = (figure) => figure.querySelector(".chart svg").getBoundingClientRect();
    for (const [k, figure] of drawn.entries()) {
      const pair = [figure, drawn[k + 1]];
      if (!pair[1] || Math.abs(figure.offsetTop - pair[1].offsetTop) > 2) continue;
      const [low, high] = pair.sort((a, b) => box(a).bottom - box(b).bottom);
      const missing = box(high).bottom - box(low).bottom;
      if (missing < 48) continue; // a legend may be below one of two axes in line
      low.stretch = Math.min(1.8, low.stretch * (1 + missing / low.plotted));
      await show(low);
    }
  };
  const redraw = async (figures, width = () => undefined) => {
    for (const figure of figures) {
      figure.stretch = figure.least = 1;
      await show(figure, width(figure));
    }
    if (!printing) await balance();
  };
  redraw(every("figure[id]")).then(() => every("figure[id] > .chart").forEach((chart) => resized.observe(chart)));

  // ---- paper

  // On paper a chart has the width of its column in px, so that its text is not scaled down. The
  // browser waits for promises that are settled at once, as those of drawing are, before it prints.
  const widths = {
    ".wide-left figure": 405,
    ".columns:has(> div + div figure) figure": 345, // two charts beside each other
    ".columns figure": 345,
    ".fold .half": 335,
    ".large": SQUARE + 88, // with its labels
    ".whole": 690,
    ".half:not([data-opens])": 335,
    figure: 540,
  };
  const onPaper = (figure) => {
    const kind = Object.keys(widths).find((selector) => figure.matches(selector));
    const wider = (figure.stretch - 1) * ({ ".large": SQUARE, ".columns figure": 120 }[kind] ?? 0);
    const width = Math.round(widths[kind] + wider);
    (figure.closest(".columns") ?? figure).style.setProperty("--chart", `${width}px`);
    return width;
  };

  // Before it prints, the browser lays out a page once more. To know where its pages will end, the
  // page is shown as on A4 paper: with the rules for print, in columns as large as a page.
  const PAPER = { width: 703, height: 1039 }; // px, inside the margins
  const onPaperOnly = (media) => {
    if (media.includes("print")) return "all";
    const [, side, width] = media.match(/(min|max)-width: ([\d.]+)rem/) ?? [];
    if (media.includes("screen") || !side) return media.includes("screen") ? "not all" : media;
    return (side === "min") === width * 16 <= PAPER.width ? "all" : "not all";
  };
  const rules = [...document.styleSheets[0].cssRules].filter((rule) => rule instanceof CSSMediaRule);
  const media = rules.map((rule) => rule.media.mediaText);
  const asPaper = (on) => {
    rules.forEach((rule, k) => (rule.media.mediaText = on ? onPaperOnly(media[k]) : media[k]));
    root.classList.toggle("paper", on);
  };
  const pageAt = (x) => Math.floor((x + 2 - document.body.getBoundingClientRect().left) / PAPER.width);

  const LETTERS = [12.5, 12.2, 11.9, 11.6, 12.8, 13.1, 13.4]; // px, the usual size first
  const BLOCKS = "h1, h2, p, li, tr, pre, dl, figure, .bars, footer";
  // How much of each page is used, as a share.
  const usedOf = () => {
    const { top } = document.body.getBoundingClientRect();
    const used = [];
    every(BLOCKS).flatMap((block) => [...block.getClientRects()]).forEach(({ left, bottom, height }) => {
      const k = pageAt(left);
      if (height > 1) used[k] = Math.max(used[k] ?? 0, (bottom - top) / PAPER.height);
    });
    return Array.from(used, (share) => share ?? 0);
  };
  // A table wider than its column would make the browser scale all pages down.
  const tooWide = (inside) => every(".scroll", inside).some((scroll) => scroll.checkVisibility() && overflows(scroll));
  // The blank ends of pages; a last page may be half empty, but not hold a few lines only.
  const blankness = (used) =>
    used.reduce((sum, share, k) => {
      const blank = k === used.length - 1 ? 2 * Math.max(0, 0.45 - share) : 1 - share;
      return sum + blank ** 2;
    }, 0.1 * used.length);
  // A chart leaves room for what is beside it.
  const grow = async (figure, most) => {
    for (figure.stretch = most; ; figure.stretch = Math.max(1, figure.stretch - 0.12)) {
      await show(figure, onPaper(figure));
      if (figure.stretch <= 1 || !tooWide(figure.closest(".columns") ?? figure)) return;
    }
  };
  const pageOf = (figure) => pageAt(figure.getBoundingClientRect().left);
  // Where a page ends early, the chart that follows is made smaller if it then fits.
  const pull = async (figures, k) => {
    const next = figures.filter((figure) => pageOf(figure) === k + 1);
    const top = (figure) => figure.getBoundingClientRect().top;
    const first = next.filter((figure) => top(figure) < top(next[0]) + 20);
    for (const size of [0.85, 0.7, 1]) {
      for (const figure of first) await grow(figure, (figure.least = size));
      if (first.every((figure) => pageOf(figure) === k)) return;
    }
  };
  // Charts of a page are stretched to fill it, as long as nothing moves to the next page.
  const stretch = async (figures, k) => {
    const before = usedOf();
    const rows = new Map(figures.map((figure) => [Math.round(figure.getBoundingClientRect().top), figure.plotted]));
    const plotted = [...rows.values()].reduce((sum, height) => sum + height, 0);
    const most = Math.min(1.45, 1 + (0.95 * PAPER.height * (1 - before[k])) / plotted);
    for (const share of [1, 0.6, 0.3, 0]) {
      for (const figure of figures) await grow(figure, figure.least * (1 + share * (most - 1)));
      const after = usedOf();
      if (after.length === before.length && after[k] >= before[k] - 0.002 && !tooWide()) return;
    }
  };
  const fill = async () => {
    const cost = (size) => {
      root.style.setProperty("--letters", `${size}px`);
      return tooWide() ? Infinity : blankness(usedOf());
    };
    const costs = LETTERS.map(cost);
    cost(LETTERS[costs.indexOf(Math.min(...costs))]);
    const figures = every("figure[id]").filter(
      (figure) => figure.checkVisibility() && !figure.matches(".columns:has(> div + div figure) figure"),
    );
    const last = usedOf().length - 1;
    for (let k = 0; k < last; k += 1) {
      if (usedOf()[k] < 0.85) await pull(figures, k);
      const own = figures.filter((figure) => pageOf(figure) === k);
      if (own.length && usedOf()[k] < 0.975) await stretch(own, k);
    }
  };

  let opened = [];
  addEventListener("beforeprint", () => {
    printing = true;
    opened = every(".fold:not([open]), .body > .large > .numbers:not([open])");
    opened.forEach((fold) => (fold.open = true));
    asPaper(true);
    arrange();
    redraw(every("figure[id]"), onPaper)
      .then(fill)
      .finally(() => asPaper(false));
  });
  addEventListener("afterprint", () => {
    opened.forEach((fold) => (fold.open = false));
    printing = false;
    // the layout is still that of the paper
    setTimeout(() => {
      arrange();
      redraw(every("figure[id]"));
    });
  });
  document.getElementById("print").addEventListener("click", () => window.print());
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
  });
})();
