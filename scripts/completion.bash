# shellcheck shell=bash
# Completion for bash: options, verbs and tasks, shipped configs, keys of configs. What there is the programs say
# themselves. Where it is not installed: `source scripts/completion.bash`, and ./cast_train completes as well.

# The cast_train beside a program.
_cast_train() { case $1 in */*) echo "${1%/*}/cast_train" ;; *) echo cast_train ;; esac; }
_cast_help() { "$@" 2>/dev/null; }
_cast_options() { _cast_help "$1" --help | sed -nE 's/^ +(-h, )?(--[a-z-]+)( [A-Z]|  |$).*/\2/p' | sort -u; }
# Whether an option takes a value.
_cast_takes() { _cast_help "$1" --help | grep -qE -- "^ +$2 [A-Z]"; }
_cast_tasks() { _cast_help "$(_cast_train "$1")" --help | sed -n 's/^tasks  *//p'; }
_cast_attention() { _cast_help "$(_cast_train "$1")" --help | sed -n 's/^attention  *//p'; }
_cast_configs() {
    _cast_help "$(_cast_train "$1")" --help | awk '/^configs / { on = 1; sub("configs", "") } /^keys / { on = 0 } on'
}
_cast_keys() {
    _cast_help "$(_cast_train "$1")" --help keys | sed -nE 's/^  (task|[a-z]+\.[a-z0-9_.]+) .*/\1=/p' | sort -u
}

# Words that an option, or a key, takes; no line: files.
_cast_values() { # _cast_values PROGRAM NAME
    case $2 in
    --split) echo train val test ;;
    --format) echo md latex csv terminal ;;
    --what) echo loss accuracy clusters lines length growth cores points ;;
    --x) echo steps time tokens ;;
    --band) echo range sd ;;
    --color) echo auto always never ;;
    model.attention.type) _cast_attention "$1" ;;
    task) _cast_tasks "$1" ;;
    esac
}

# What may stand at a place of the command line.
_cast_words() { # _cast_words PROGRAM PLACE VERB
    case ${1##*/},$2,$3 in
    cast_data,1,*) echo generate import show verify ;;
    cast_data,2,generate | cast_data,2,import) _cast_tasks "$1" ;;
    cast_train,1,* | cast_sweep,1,* | cast_bench,1,* | cast_step,1,*) _cast_configs "$1" ;;
    cast_data,* | cast_report,* | cast_export,* | *,1,*) ;;
    *) _cast_keys "$1" ;;
    esac
}

_cast() {
    local program=${1/#\~\//$HOME/} word=$2 before=$3 key='' words=''
    COMPREPLY=()
    # A word of bash's ends at "=".
    if [ "$word" = = ]; then
        word='' key=$before
    elif [ "$before" = = ]; then
        key=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ -n "$key" ]; then
        words=$(_cast_values "$program" "$key")
    elif [[ $word == -* ]]; then
        words=$(_cast_options "$program")
    elif [[ $before == --* ]] && _cast_takes "$program" "$before"; then
        words=$(_cast_values "$program" "$before")
    else
        words=$(_cast_words "$program" "$COMP_CWORD" "${COMP_WORDS[1]-}")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    case ${COMPREPLY[*]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -o bashdefault -F _cast \
    cast_train cast_sweep cast_eval cast_viz cast_export cast_data cast_bench cast_report cast_step
