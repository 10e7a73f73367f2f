#compdef cast_train cast_sweep cast_eval cast_viz cast_export cast_data cast_bench cast_report cast_step
# Completion for zsh: options, verbs and tasks, shipped configs, keys of configs, files. What there is the programs say
# themselves.

local program=$words[1] help
help=$($program --help 2>/dev/null)
if [[ $PREFIX == -* ]]; then
    compadd -- ${(u)${(M)${=${help//[\[\]]/ }}:#--[a-z-]##}}
    return
fi
case ${program:t},$CURRENT in
    cast_data,2) compadd generate import show verify ;;
    cast_data,3) compadd ${=${(M)${(f)"$(cast_train --help 2>/dev/null)"}:#tasks*}#tasks} ;;
    cast_(train|sweep|bench|step),2)
        compadd ${=$(cast_train --help 2>/dev/null | awk '/^configs / { on = 1; sub("configs", "") } /^keys / { on = 0 } on')}
        _files
        ;;
    cast_(report|export|data),*) _files ;;
    *)
        compadd -S '' -- ${(f)"$(cast_train --help keys 2>/dev/null | sed -nE 's/^  ([a-z]+(\.[a-z0-9_]+)*) .*/\1=/p')"}
        _files
        ;;
esac
