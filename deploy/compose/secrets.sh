#!/bin/sh
# Makes the passwords and tokens that the services share, in one folder for each service; existing ones are kept.
#
#   secrets.sh [FOLDER]
set -eu
umask 077
folder=${1:-/secrets}

random() { python -c 'import secrets; print(secrets.token_urlsafe(32))'; }

# keep FILE TEXT: write the file whole or not at all, so that an interrupted start leaves nothing half done.
keep() {
    [ ! -s "$1" ] || return 0
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$2" >"$1.new"
    mv "$1.new" "$1"
}

# hand FOLDER USER: give it to the user that the service's image runs as.
hand() {
    [ "$(id -u)" = 0 ] || return 0
    chown -R "$2" "$folder/$1"
}

keep "$folder/postgres/password" "$(random)"
keep "$folder/grafana/password" "$(random)"

for role in admin:admin prometheus:viewer demo:job; do
    keep "$folder/controller/tokens/${role%:*}" "$(tidemark token mint --role "${role#*:}")"
done
keep "$folder/prometheus/token" "$(cat "$folder/controller/tokens/prometheus")"
keep "$folder/job/token" "$(cat "$folder/controller/tokens/demo")"

password=$(cat "$folder/postgres/password")
keep "$folder/controller/tidemark.toml" \
    "database_url = \"postgresql+psycopg://tidemark:$password@postgres/tidemark\""

hand controller 10001:10001
hand prometheus 65534:65534
hand grafana 472:0
hand job 10001:10001
