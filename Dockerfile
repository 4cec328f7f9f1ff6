# The controller: no JVM, no pyspark. Pinned by tag; a digest is for whoever builds it to add, since none could be checked
# where this file was written: there was no container engine. Its steps are run, line by line, by tests/deploy/test_image.py.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Dependencies first: their layer stays while only the code changes.
COPY deploy/requirements/ deploy/requirements/
RUN python -m venv /opt/tidemark \
    && /opt/tidemark/bin/pip install --require-hashes -r deploy/requirements/controller.txt \
    && pip install --require-hashes -r deploy/requirements/build.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY models/ models/
COPY controller/ controller/
COPY spark_jobs/ spark_jobs/
# pip itself has no business in a service.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/tidemark/bin/pip install --no-deps /dist/tidemark-*.whl \
    && /opt/tidemark/bin/pip uninstall --yes pip setuptools

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="Tidemark" \
      org.opencontainers.image.description="An adaptive watermark controller for Spark Structured Streaming" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --home-dir /var/lib/tidemark --create-home tidemark
COPY --from=build /opt/tidemark /opt/tidemark
# All that is written goes to /var/lib/tidemark, so that the rest may be mounted read-only.
ENV PATH=/opt/tidemark/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TIDEMARK_HOST=0.0.0.0 TIDEMARK_PORT=8642
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
USER 10001
EXPOSE 8642
# Past any proxy that the environment names.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-Ic", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['TIDEMARK_PORT'] + '/readyz', timeout=2)"]
CMD ["tidemark", "serve"]
