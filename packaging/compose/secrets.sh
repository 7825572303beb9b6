#!/bin/bash
# Makes the secrets of the services, unless they are there: a second start changes none.
set -euo pipefail
umask 077
new() { head -c 32 /dev/urandom | base64 | tr -d '+/=\n'; }

cd "${1:-/secrets}"
if [ ! -s database/password ]; then
	new >database/password.new
	mv database/password.new database/password
fi
printf 'database:5432:kairos:kairos:%s\n' "$(cat database/password)" >kairos/pgpass.new
if [ ! -s provider/admin ]; then
	new >provider/admin.new
	mv provider/admin.new provider/admin
fi
# The users of the images.
if [ "$(id -u)" = 0 ]; then
	chown 65532:65532 kairos/pgpass.new
	chown 1000:0 provider/admin provider-data
fi
mv kairos/pgpass.new kairos/pgpass
