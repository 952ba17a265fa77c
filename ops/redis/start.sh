#!/bin/sh
# Start Redis with a configuration file and the password of REDIS_PASSWORD, which must not show in `ps`:
# start.sh redis.conf
set -eu
: "${REDIS_PASSWORD:?is not set}"
case $REDIS_PASSWORD in
    *[!0-9A-Za-z]*) echo "REDIS_PASSWORD: use letters and digits, since it stands in a URL too" >&2; exit 2 ;;
esac
password=$REDIS_PASSWORD
unset REDIS_PASSWORD
exec redis-server - <<CONFIGURATION
include $1
requirepass $password
CONFIGURATION
