# The example job and its feed: Spark as PySpark ships it, and Tidemark's wheel. In their own images your jobs need only
# the wheel, or the archive for --py-files; see docs/how-to/jobs.md.
FROM python:3.11.14-slim-bookworm
# Debian keeps only one version of the runtime: a pinned one disappears with the next security release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY deploy/requirements/ deploy/requirements/
RUN pip install --require-hashes -r deploy/requirements/build.txt \
    && pip install --require-hashes --no-build-isolation -r deploy/requirements/job.txt
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY models/ models/
COPY controller/ controller/
COPY spark_jobs/ spark_jobs/
# A mirror of Maven Central.
ARG DEFAULT_ARTIFACT_REPOSITORY=
ENV TIDEMARK_JARS=/opt/jars
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && pip install --no-deps /dist/tidemark_streaming-*.whl \
    && DEFAULT_ARTIFACT_REPOSITORY=$DEFAULT_ARTIFACT_REPOSITORY python -m tidemark.spark_jobs.demo.kafka_jars
RUN useradd --system --uid 10001 --home-dir /state --create-home tidemark \
    && mkdir /opt/job && cp spark_jobs/demo/examples/kafka_counts.py /opt/job/
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /state
VOLUME /state
USER 10001
CMD ["spark-submit", "--version"]
