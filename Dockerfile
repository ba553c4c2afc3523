# The fake broker. `docker build -t aiorocketmq-fake .`, then `docker run -p 8081:8081 -p 8082:8082 -p 9876:9876 aiorocketmq-fake`.
# Any base with Python 3.11 or newer, pip and a shell serves.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# For builds without a package index: PIP_NO_INDEX=1 and a folder of wheels in the context.
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
WORKDIR /source
COPY . .
# Modules are compiled, as the user of the image cannot write what Python compiles; those of the tables are left out.
RUN python3 -m venv --without-pip /opt/aiorocketmq \
 && python3 -m pip --python /opt/aiorocketmq/bin/python install --no-cache-dir --no-compile ".[cli]" \
 && /opt/aiorocketmq/bin/python -m compileall -q -x 'pygments|rich|markdown_it' /opt/aiorocketmq/lib

FROM ${BASE}
COPY --from=build /opt/aiorocketmq /opt/aiorocketmq
ENV PATH=/opt/aiorocketmq/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONUNBUFFERED=1
USER 10001:10001
# gRPC, control, name server and broker of the classic protocol.
EXPOSE 8081 8082 9876
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["aiorocketmq", "fake", "ctl", "describe"]
# Published ports have the same numbers on the host: routes name them, with the host that clients use.
CMD ["aiorocketmq", "fake", "serve", "--listen", "0.0.0.0:8081", "--control", "0.0.0.0:8082", "--remoting-port", "9876", "--advertise", "127.0.0.1"]
