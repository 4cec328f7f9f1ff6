# The controller: no JVM, no PySpark. Base images are pinned by tag; `make images` pins them by digest too. No container
# engine was at hand where this file was written; tests/deploy/test_image.py runs its steps line by line.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Dependencies first: their layer is reused while only the code changes.
COPY deploy/requirements/ deploy/requirements/
RUN python -m venv /opt/tidemark \
    && /opt/tidemark/bin/pip install --require-hashes -r deploy/requirements/controller.txt \
    && pip install --require-hashes -r deploy/requirements/build.txt
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY models/ models/
COPY controller/ controller/
COPY spark_jobs/ spark_jobs/
# A service does not need pip.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/tidemark/bin/pip install --no-deps /dist/tidemark_streaming-*.whl \
    && /opt/tidemark/bin/pip uninstall --yes pip setuptools

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="Tidemark" \
      org.opencontainers.image.description="An adaptive watermark controller for Spark Structured Streaming" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --home-dir /var/lib/tidemark --create-home tidemark
COPY --from=build /opt/tidemark /opt/tidemark
# Everything is written to /var/lib/tidemark, so the rest can be mounted read-only.
ENV PATH=/opt/tidemark/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TIDEMARK_HOST=0.0.0.0 TIDEMARK_PORT=8642
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
USER 10001
EXPOSE 8642
# Bypasses any proxy in the environment.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-Ic", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['TIDEMARK_PORT'] + '/readyz', timeout=2)"]
CMD ["tidemark", "serve"]
