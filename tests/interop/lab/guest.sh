# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# shellcheck shell=bash
# Sourced in each guest before its script. Guest a is 192.0.2.1 and 2001:db8::1, guest b is 192.0.2.2 and 2001:db8::2.
#   $ME $PEER        host numbers (1 and 2)          $NIC   the Ethernet device between the guests
#   rdmadev siw|rxe  creates siw0 or rxe0 over $NIC  mark NAME / waitfor NAME [TENTHS]   signals through /out
#   siw KEY VALUE    changes a parameter of siw for the connections that follow
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
case $(cat /proc/cmdline) in *who=b*) ME=2 PEER=1 ;; *) ME=1 PEER=2 ;; esac
export ME PEER

NIC=
for device in /sys/class/net/*; do
  case ${device##*/} in eth* | en*) NIC=${device##*/} ;; esac
done
export NIC
ip link set lo up
ip link set "$NIC" up
ip address add "192.0.2.$ME/24" dev "$NIC"
ip -6 address add "2001:db8::$ME/64" dev "$NIC" nodad

# Nothing in /out is cached: a program that stays there is read from the host at each start.
programs() {
  local program
  for program in /out/*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
      install -D -t /run/programs "$program" && mount --bind "/run/programs/${program##*/}" "$program"
    fi
  done
}
programs

rdmadev() {
  local kind
  for kind in "$@"; do rdma link add "${kind}0" type "$kind" netdev "$NIC" || return; done
}
siw() { echo "$2" >"/sys/module/siw/parameters/$1"; }
mark() { : >"/out/.mark.$1"; }
waitfor() {
  local tenth
  for ((tenth = 0; tenth < ${2:-600}; ++tenth)); do
    [ -e "/out/.mark.$1" ] && return 0
    sleep 0.1
  done
  echo "timed out waiting for $1" >&2
  return 1
}
