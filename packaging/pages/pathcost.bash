# What bash completes after pathcost; packaging/pages.py fills in the words.
_pathcost() {
	local line=${COMP_LINE:0:COMP_POINT} verb=run words='' list='' word before broken
	local -a typed
	read -ra typed <<<"$line"
	[[ $line != *' ' ]] || typed+=('')
	word=${typed[-1]} before=${typed[-2]}
	broken=${word%"${word##*[=:]}"} # bash replaces only what follows
	[[ ${#typed[@]} = 2 || ' @verbs@ ' != *" ${typed[1]} "* ]] || verb=${typed[1]}
	[[ $word != --*=* ]] || before=${word%%=*} word=${word#*=}
	if [[ $word = -* ]]; then
		case $verb in
@options@
		esac
	else
		case "$verb $before" in
@values@
		*) [[ ${#typed[@]} != 2 ]] || words='@verbs@' ;;
		esac
	fi
	[[ $word != *,* ]] || list=${word%,*},
	mapfile -t COMPREPLY < <(compgen -P "$list" -W "$words" -- "${word##*,}")
	COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}
complete -o default -F _pathcost pathcost
