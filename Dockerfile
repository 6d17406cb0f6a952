# The maxsimd image.
#
#   with CUDA (default):  docker build -t maxsim .
#   CPU only:             docker build -t maxsim:cpu --build-arg CUDA=OFF \
#                           --build-arg BUILD_BASE=debian:12 --build-arg RUNTIME_BASE=debian:12-slim .
#   of programs that scripts/packages/make-image-programs.sh has collected, without compiling them again:
#                         docker build -t maxsim --build-context programs=build/image ...
#
# BUILD_BASE is a Debian or an Ubuntu; RUNTIME_BASE too, with a glibc at least as new as that of the distribution that the
# programs were built on. The CUDA runtime is linked in and the driver comes from the host (NVIDIA Container Toolkit), so
# that the runtime needs no CUDA library. Nothing is cross-compiled: every stage runs on the platform of the image
# (--platform). Build an arm64 image on an arm64 machine, or on another one under the builder's emulation.
ARG BUILD_BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG RUNTIME_BASE=nvidia/cuda:13.0.1-base-ubuntu24.04

FROM ${RUNTIME_BASE} AS base

FROM ${BUILD_BASE} AS tools
WORKDIR /src
COPY deploy/apt-packages.txt deploy/
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh image && rm -rf /var/lib/apt/lists/*

FROM tools AS build
RUN scripts/setup.sh build bundle && rm -rf /var/lib/apt/lists/*
COPY . .
# ON, OFF or AUTO. ON fails where BUILD_BASE has no nvcc, so that no image lacks its GPU code unnoticed.
ARG CUDA=ON
ARG COMMIT=unknown
ARG JOBS=""
RUN cmake --preset release -DMAXSIM_CUDA=${CUDA} -DMAXSIM_TESTS=OFF -DMAXSIM_BENCHMARKS=OFF \
      -DMAXSIM_COMMIT=${COMMIT} \
 && cmake --build --preset release ${JOBS:+-j ${JOBS}} --target maxsimd maxsimctl maxsim-shard maxsim-loadtest \
 && scripts/packages/make-image-programs.sh build/release build/image

# The programs with their libraries, licences and list of parts. A folder given as --build-context programs=FOLDER replaces
# this stage, and then the builder skips the stage `build`.
FROM scratch AS programs
COPY --from=build /src/build/image /

# The image's list of parts: the list of the programs, and the packages of the base.
FROM tools AS sbom
COPY scripts/packages/licences.py scripts/packages/sbom.py scripts/packages/
COPY --from=base /usr/lib/os-release /var/lib/dpkg/status /base/
COPY --from=programs /sbom.json /programs/
RUN scripts/packages/sbom.py image /programs/sbom.json /base/os-release /base/status /sbom.json

FROM base
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="maxsimd" \
      org.opencontainers.image.description="Exact MaxSim rerank service for late-interaction retrieval" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${COMMIT}"
# Which parts of the driver NVIDIA's runtime puts into the container: compute for CUDA, utility for NVML.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PATH=/opt/maxsim/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY --from=programs /bin /opt/maxsim/bin
COPY --from=programs /lib /opt/maxsim/lib
COPY --from=programs /licences /opt/maxsim/licences
COPY --from=programs /LICENSE /opt/maxsim/LICENSE
COPY --from=sbom /sbom.json /opt/maxsim/sbom.json
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
