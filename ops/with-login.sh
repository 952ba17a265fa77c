#!/bin/sh
# Run a command as the user `tellback` with the login in /run/secrets/USER.env, a file of `tellback acl`:
# with-login.sh USER COMMAND...
# The container starts as root because only root reads the file: what this process becomes cannot, and neither can the
# commands of agents that a worker runs. `docker inspect` shows no password, since the container's settings have none.
set -eu
file=/run/secrets/$1.env
shift
# Only names of these forms, so that the file runs nothing and changes no PATH.
while IFS= read -r line; do
    case $line in
        TELLBACK_*=* | FLOWER_*=*) export "${line?}" ;;
    esac
done <"$file"
export HOME=/var/lib/tellback
if [ "$(id -u)" = 0 ]; then
    set -- setpriv --reuid=tellback --regid=tellback --clear-groups --no-new-privs -- "$@"
fi
exec "$@"
