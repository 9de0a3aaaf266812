# One image for all services; compose.yaml gives each its command.
# For a build that is the same to the byte, name the base by digest: --build-arg PYTHON=python:3.13-slim-trixie@sha256:...
ARG PYTHON=python:3.13-slim-trixie

FROM ${PYTHON} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
WORKDIR /source
RUN python -m venv /opt/towpath
# What Towpath needs is a layer of its own, which a change of Towpath's code leaves as it is.
COPY requirements/image.txt requirements/
RUN /opt/towpath/bin/pip install --no-cache-dir --only-binary :all: --require-hashes \
        --requirement requirements/image.txt \
    # The symbols for debuggers are a fifth of it.
    && find /opt/towpath -name '*.so' -exec strip --strip-unneeded {} + \
    # botocore describes every service of AWS; S3 is used, and what gives credentials for it.
    && find /opt/towpath -path '*/botocore/data/*' -prune -type d \
        ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -r {} + \
    # Pygments, which Rich brings, highlights the code of hundreds of languages, and nothing here shows code.
    && find /opt/towpath -path '*/pygments/lexers/*' -type f ! -name '__init__*' ! -name '_mapping*' -delete \
    # Tests of packages, and the sources and type stubs of their compiled modules.
    && find /opt/towpath/lib -depth -path '*/site-packages/*' -type d -name tests -exec rm -r {} + \
    && find /opt/towpath/lib -path '*/site-packages/*' -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.pyx' -o -name '*.pxd' \
           -o -name '*.pyi' \) -delete
COPY requirements/build.txt requirements/
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir --only-binary :all: --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY proto/gen proto/gen
COPY services services
RUN /build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && /opt/towpath/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && /opt/towpath/bin/pip uninstall --yes pip

FROM ${PYTHON} AS runtime
# A fixed user, and the folder of objects as a new volume takes it over.
RUN groupadd --gid 10001 towpath \
    && useradd --uid 10001 --gid towpath --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin towpath \
    && install --directory --owner towpath --group towpath --mode 0750 /var/lib/towpath
COPY --from=build /opt/towpath /opt/towpath
COPY deploy/probe.sh /opt/towpath/bin/probe.sh
ENV PATH=/opt/towpath/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/towpath
CMD ["towpath", "--help"]

# The labels come last, so that another commit makes no other layer.
FROM runtime AS ssh-server
USER 0:0
RUN apt-get update && apt-get install --yes --no-install-recommends openssh-server \
    && rm -r /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
    # The user of the services, by the name that clients log in to, with a shell for the forced command.
    && useradd --non-unique --uid 10001 --gid towpath --no-create-home --home-dir / --shell /bin/sh git \
    && install --directory --owner towpath --group towpath --mode 0700 /var/lib/ssh
COPY deploy/sshd/sshd_config /etc/ssh/towpath_sshd_config
COPY deploy/sshd/start.sh /opt/towpath/bin/start-sshd.sh
USER 10001:10001
WORKDIR /
EXPOSE 2222
CMD ["start-sshd.sh"]

# OpenSSH, for the profile `ssh` of compose.yaml.
FROM ssh-server AS sshd
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="Towpath sshd" \
      org.opencontainers.image.description="OpenSSH, which asks Towpath for keys and hands sessions to it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# The image of a build that names no target.
FROM runtime AS towpath
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="Towpath" \
      org.opencontainers.image.description="Large files beside git repositories, and exclusive locks on their paths" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
