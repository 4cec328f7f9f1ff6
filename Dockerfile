# The controller: no JVM, no pyspark. Pinned by tag. No container engine was at hand where this file was written: it has
# not been built there; its steps (hashed install, wheel, `tidemark serve`) are those that tests and `make` run.
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
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/tidemark/bin/pip install --no-deps /dist/tidemark-*.whl

FROM python:3.11.14-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /var/lib/tidemark --create-home tidemark
COPY --from=build /opt/tidemark /opt/tidemark
ENV PATH=/opt/tidemark/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /var/lib/tidemark
USER 10001
EXPOSE 8642
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/readyz', timeout=2)"]
CMD ["tidemark", "serve", "--host", "0.0.0.0"]
