# The demo on the CPU. TORCH_INDEX is the address of PyTorch's CPU index, see pytorch.org:
# docker build --build-arg TORCH_INDEX=... -t plot-attractors .
# docker run --rm -v "$PWD/runs:/app/runs" plot-attractors     # then open runs/demo/report.html
FROM python:3.12-slim
ARG TORCH_INDEX
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
RUN : "${TORCH_INDEX:?give the address of PyTorch's CPU index, see pytorch.org}" && python -m venv .venv \
    && .venv/bin/pip install --no-cache-dir --no-deps -c constraints.txt --index-url "$TORCH_INDEX" torch \
    && PIP_NO_CACHE_DIR=1 make .venv/.installed
CMD ["make", "demo"]
