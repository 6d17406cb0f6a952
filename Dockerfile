# The maxsimd image.
#
#   with CUDA (default):  docker build -t maxsim .
#   CPU only:             docker build -t maxsim:cpu --build-arg CUDA=OFF \
#                           --build-arg BUILD_BASE=debian:12 --build-arg RUNTIME_BASE=debian:12-slim .
#
# BUILD_BASE is a Debian or an Ubuntu; RUNTIME_BASE any image with bash and a glibc at least as new as BUILD_BASE's. The
# CUDA runtime is linked in and the driver comes from the host (NVIDIA Container Toolkit), so that the runtime needs no
# CUDA library.
ARG BUILD_BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG RUNTIME_BASE=nvidia/cuda:13.0.1-base-ubuntu24.04

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY deploy/apt-packages.txt deploy/
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh build bundle && rm -rf /var/lib/apt/lists/*
COPY . .
# ON, OFF or AUTO. ON fails where BUILD_BASE has no nvcc, so that no image lacks its GPU code unnoticed.
ARG CUDA=ON
ARG COMMIT=unknown
ARG JOBS=""
RUN cmake --preset release -DMAXSIM_CUDA=${CUDA} -DMAXSIM_TESTS=OFF -DMAXSIM_BENCHMARKS=OFF \
      -DMAXSIM_COMMIT=${COMMIT} \
 && cmake --build --preset release ${JOBS:+-j ${JOBS}} --target maxsimd maxsimctl maxsim-shard maxsim-loadtest \
 && scripts/bundle.sh --programs-only build/release build/bundle

FROM ${RUNTIME_BASE}
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="maxsimd" \
      org.opencontainers.image.description="Exact MaxSim rerank service for late-interaction retrieval" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${COMMIT}"
# Which parts of the driver NVIDIA's runtime puts into the container: compute for CUDA, utility for NVML.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PATH=/opt/maxsim/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY --from=build /src/build/bundle/bin /opt/maxsim/bin
COPY --from=build /src/build/bundle/lib /opt/maxsim/lib
COPY --from=build /src/LICENSE /opt/maxsim/LICENSE
COPY deploy/docker/maxsimd.yaml /etc/maxsim/maxsimd.yaml
COPY deploy/docker/healthcheck /opt/maxsim/healthcheck
# Collections are read from /collections (a volume, which may be read-only). The server writes only to the folders of
# live collections; their volume must be writable by the user below.
WORKDIR /collections
# A number, so that Kubernetes can check runAsNonRoot.
USER 10001:10001
EXPOSE 7070 7071
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --retries=3 CMD ["/opt/maxsim/healthcheck"]
# The server is process 1, gets the signals itself and starts no children: no init is needed.
ENTRYPOINT ["maxsimd"]
CMD ["--config", "/etc/maxsim/maxsimd.yaml"]
