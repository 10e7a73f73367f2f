#compdef cast_train cast_sweep cast_eval cast_viz cast_export cast_data cast_bench cast_report cast_step
# Completion for zsh: options, verbs and tasks, shipped configs, keys of configs, files. What there is the programs say
# themselves.

local program=$words[1] before=$words[CURRENT-1] train=cast_train
[[ $program == */* ]] && train=${program%/*}/cast_train
local -a options values
options=(${(f)"$($program --help 2>/dev/null | sed -nE 's/^ +(-h, )?(--[a-z-]+)( [A-Z]|  |$).*/\2/p' | sort -u)"})
values=(${(f)"$($program --help 2>/dev/null | sed -nE 's/^ +(--[a-z-]+) [A-Z].*/\1/p' | sort -u)"})
if [[ $PREFIX == -* ]]; then
    compadd -a options
    return
fi
if [[ $PREFIX == *=* ]] || (( ${values[(Ie)$before]} )); then
    compset -P '*='
    _files
    return
fi
case ${program:t},$CURRENT in
    cast_data,2) compadd generate import show verify ;;
    cast_data,3)
        [[ $before == (generate|import) ]] && compadd ${=$($train --help 2>/dev/null | sed -n 's/^tasks  *//p')} || _files
        ;;
    cast_(train|sweep|bench|step),2)
        compadd ${=$($train --help 2>/dev/null | awk '/^configs / { on = 1; sub("configs", "") } /^keys / { on = 0 } on')}
        _files
        ;;
    cast_(report|export|data),* | *,2) _files ;;
    *)
        compadd -S '' -- ${(f)"$($train --help keys 2>/dev/null | sed -nE 's/^  (task|[a-z]+\.[a-z0-9_.]+) .*/\1=/p')"}
        ;;
esac
