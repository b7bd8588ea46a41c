# syntax=docker/dockerfile:1
# The service in a container, for a CPU (`--target cpu`) or Ascend NPUs (`--target ascend`), on x86-64 and aarch64.
# The models are not in it: a bundle is mounted. See docs/containers.md.

# An image with CANN's toolkit and the kernels of the chip; it must suit the host's driver.
ARG CANN_IMAGE=ascendai/cann:8.2.rc1-910b-ubuntu22.04-py3.11

# Built on an old Debian: what is linked here runs on any glibc from 2.31 on, that of CANN's images included.
FROM rust:1.95.0-bullseye AS build
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked && install -D target/release/storymem /out/storymem

FROM python:3.11-slim-bookworm AS onnxruntime-cpu
COPY tools/fetch_onnxruntime.py /
RUN python3 /fetch_onnxruntime.py /out

FROM python:3.11-slim-bookworm AS onnxruntime-cann
COPY tools/fetch_onnxruntime.py /
RUN python3 /fetch_onnxruntime.py /out cann


FROM debian:bookworm-slim AS cpu
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 storymem \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin storymem \
    && install -d -o storymem -g storymem /data
COPY --from=onnxruntime-cpu /out /opt/onnxruntime
COPY --from=build /out/storymem /usr/local/bin/storymem
ENV STORYMEM_ONNXRUNTIME=/opt/onnxruntime/libonnxruntime.so \
    STORYMEM_LISTEN=0.0.0.0:8080 \
    STORYMEM_DATA_DIR=/data \
    STORYMEM_BUNDLE=/bundle
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["curl", "-fsS", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["storymem"]
CMD ["serve"]


# hadolint ignore=DL3006
FROM ${CANN_IMAGE} AS ascend
USER 0:0
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# Devices of the host belong to its group HwHiAiUser, 1000 where the driver's installer chose; see docker-compose.yml.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 storymem \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin storymem \
    && install -d -o storymem -g storymem /data /graphs
COPY --from=onnxruntime-cann /out /opt/onnxruntime
COPY --from=build /out/storymem /usr/local/bin/storymem
COPY deploy/ascend-entrypoint.sh /usr/local/bin/ascend-entrypoint
ENV STORYMEM_ONNXRUNTIME=/opt/onnxruntime/libonnxruntime.so \
    STORYMEM_LISTEN=0.0.0.0:8080 \
    STORYMEM_DATA_DIR=/data \
    STORYMEM_BUNDLE=/bundle \
    STORYMEM_GRAPH_CACHE=/graphs \
    STORYMEM_DEVICE=cann:0
USER 10001:10001
VOLUME ["/data", "/graphs"]
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["curl", "-fsS", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["ascend-entrypoint"]
CMD ["serve"]
