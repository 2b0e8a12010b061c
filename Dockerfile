# An image that audits at once: the kernels are compiled when it is built.
#   docker build -t probaudit .
#   docker run --rm -v "$PWD:/data" probaudit check preds.parquet --max ece.high=0.03
FROM python:3.12-slim

ARG REQUIREMENT=probaudit
RUN pip install --no-cache-dir "$REQUIREMENT"

# Compiled kernels are read by any user; without this folder each run would compile them again.
ENV NUMBA_CACHE_DIR=/opt/probaudit-kernels
RUN mkdir -p "$NUMBA_CACHE_DIR" && probaudit warm-up && chmod -R a+rX "$NUMBA_CACHE_DIR"

WORKDIR /data
USER 1000
ENTRYPOINT ["probaudit"]
CMD ["--help"]
