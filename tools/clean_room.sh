#!/usr/bin/env bash
# Proves that no package of this machine hides a missing set-up step: clones HEAD into a new Debian
# that has nothing but git, Python, a C++ compiler and make, and runs `make test` there.
#
#   sudo tools/clean_room.sh [--suite bookworm] [--mirror URL] [--root DIR] [--keep] [-- COMMAND…]
#
# Needs root and debootstrap. The mirror is that of this machine's apt unless it is given; the
# settings of apt, pip and proxies are this machine's too. COMMAND replaces `make test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

suite=bookworm mirror='' root='' keep=no
while [ $# -gt 0 ]; do
  case "$1" in
    --suite) suite=$2; shift 2 ;;
    --mirror) mirror=$2; shift 2 ;;
    --root) root=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    --) shift; break ;;
    *) sed -n '2,9p' "$0" >&2; exit 2 ;;
  esac
done
if [ $# -eq 0 ]; then set -- make test; fi

fail() { printf 'clean_room: %s\n' "$*" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || fail "needs root: debootstrap and chroot"
command -v debootstrap >/dev/null || fail "needs debootstrap: apt-get install debootstrap"
if [ -z "$mirror" ]; then
  # The site of the first package index that apt uses for the suite.
  # shellcheck disable=SC2016 # apt expands these
  mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite { print $2; exit }')
  [ -n "$mirror" ] || fail "apt names no mirror of $suite: give --mirror"
fi
[ -n "$root" ] || root=$(mktemp -d)

clean() {
  for mount in dev proc; do
    if mountpoint -q "$root/$mount"; then umount -R -l "$root/$mount"; fi
  done
  if [ "$keep" = yes ]; then echo "clean_room: kept $root" >&2; else rm -rf --one-file-system "$root"; fi
}
trap clean EXIT

debootstrap --variant=minbase \
  --include=ca-certificates,git,python3,python3-venv,g++,make "$suite" "$root" "$mirror"

# How this machine reaches apt and pip: their settings, certificates, local wheels and proxies.
copy() { if [ -e "$1" ]; then mkdir -p "$root$(dirname "$1")" && cp -aL "$1" "$root$(dirname "$1")/"; fi; }
for path in /etc/apt/apt.conf /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d /etc/apt/keyrings /etc/resolv.conf /etc/hosts \
    /etc/pip.conf /etc/xdg/pip /etc/ssl/certs/ca-certificates.crt; do
  copy "$path"
done
for path in "$HOME/.config/pip" "$HOME/.pip" ${PIP_FIND_LINKS:-} ${PIP_CERT:-}; do
  case "$path" in /*) copy "$path" ;; esac
done
environment=(HOME="$HOME" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
while IFS= read -r setting; do environment+=("$setting"); done \
  < <(env | grep -E '^(PIP_[A-Z_]+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY)=' || true)
mkdir -p "$root$HOME"

# Slaves, so that unmounting them here unmounts nothing of this machine.
mount -t proc proc "$root/proc" || { mount --rbind /proc "$root/proc" && mount --make-rslave "$root/proc"; }
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
git clone -q --no-hardlinks . "$root/niskin"
env -i "${environment[@]}" chroot "$root" /bin/bash -c 'cd /niskin && exec "$@"' clean_room "$@"
