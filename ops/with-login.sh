#!/bin/sh
# Run a command as the user `tellback` with the login in /run/secrets/USER.env, a file of `tellback acl`:
# with-login.sh [--root] USER COMMAND...
# The container starts as root because only root reads the file: what this process becomes cannot, and neither can the
# commands of agents that a worker runs. `docker inspect` shows no password, since the container's settings have none.
# With --root it stays root: what starts again and again, such as a health check, cannot close its environment before its
# interpreter runs, and a command that waits for that moment would read it.
set -eu
root=
if [ "$1" = --root ]; then
    root=yes
    shift
fi
file=/run/secrets/$1.env
shift
# Only names of these forms, so that the file runs nothing and changes no PATH.
while IFS= read -r line; do
    case $line in
        TELLBACK_*=* | FLOWER_*=*) export "${line?}" ;;
    esac
done <"$file"
export HOME=/var/lib/tellback
if [ "$(id -u)" = 0 ] && [ -z "$root" ]; then
    set -- setpriv --reuid=tellback --regid=tellback --clear-groups --no-new-privs -- "$@"
fi
exec "$@"
