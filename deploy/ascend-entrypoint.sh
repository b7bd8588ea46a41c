#!/usr/bin/env bash
# Puts CANN and the host's driver on the loader's path, as their own scripts do, and becomes `storymem`.
set -eo pipefail
for script in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/cann/set_env.sh; do
    if [ -r "$script" ]; then
        # shellcheck disable=SC1090
        . "$script"
        break
    fi
done
driver=/usr/local/Ascend/driver/lib64
export LD_LIBRARY_PATH="$driver:$driver/common:$driver/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec storymem "$@"
