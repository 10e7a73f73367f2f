# shellcheck shell=bash
# Completion for bash: options, verbs and tasks, shipped configs, keys of configs. What there is the programs say
# themselves. Where it is not installed: `source scripts/completion.bash`.

_cast_options() { "$1" --help 2>/dev/null | grep -oE -- '(^|[[ ])--[a-z-]+' | tr -d '[ ' | sort -u; }
_cast_configs() { cast_train --help 2>/dev/null | awk '/^configs / { on = 1; sub("configs", "") } /^keys / { on = 0 } on'; }
_cast_tasks() { cast_train --help 2>/dev/null | sed -n 's/^tasks  *//p'; }
_cast_keys() { cast_train --help keys 2>/dev/null | sed -nE 's/^  ([a-z]+(\.[a-z0-9_]+)*) .*/\1=/p' | sort -u; }

# Words that an option, or a key, takes.
_cast_values() {
    case $1 in
    --split) echo train val test ;;
    --format) echo md latex csv terminal ;;
    --what) echo loss accuracy clusters length growth points ;;
    --x) echo steps time tokens ;;
    --band) echo range sd ;;
    --color) echo auto always never ;;
    model.attention.type) cast_train --help 2>/dev/null | sed -n 's/^attention  *//p' ;;
    task) _cast_tasks ;;
    esac
}

_cast() {
    local program=$1 word=$2 before=$3 words=
    COMPREPLY=()
    # A word of bash's ends at "=".
    [ "$word" = = ] && word= && before==
    [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 1]} && [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    words=$(_cast_values "$before")
    if [ -z "$words" ]; then
        case $word,${program##*/},$COMP_CWORD in
        -*) words=$(_cast_options "$program") ;;
        *,cast_data,1) words='generate import show verify' ;;
        *,cast_data,2) words=$(_cast_tasks) ;;
        *,cast_train,1 | *,cast_sweep,1 | *,cast_bench,1 | *,cast_step,1) words=$(_cast_configs) ;;
        *,cast_report,* | *,cast_export,*) ;;
        *) words=$(_cast_keys) ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    case ${COMPREPLY[*]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -o bashdefault -F _cast \
    cast_train cast_sweep cast_eval cast_viz cast_export cast_data cast_bench cast_report cast_step
