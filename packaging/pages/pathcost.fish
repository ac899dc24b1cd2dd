# What fish completes after pathcost; packaging/pages.py fills in the words.
function __pathcost_takes
    set -l verb (commandline -opc)[2]
    contains -- "$verb" @verbs@; or set verb run
    contains -- $verb $argv
end
complete -c pathcost -f
@rows@
