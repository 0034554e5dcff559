# Completion of meshwright's command line, made by `meshwright --bash-completion` from its tables.
# Which words may stand in a place: COMMAND:options, COMMAND:first, COMMAND:next, or COMMAND:--option for its value.
# Sets words, and takes=1 where an option has a value.
_meshwright_words()
{
    words= takes=
    case $1 in
@CASES@
    esac
    case $words in
    @topology) words='@TOPOLOGIES@' ;;
    @model) words='@MODELS@' ;;
    esac
}

_meshwright()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} place= given=' ' count=0 i word words takes
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        COMPREPLY=($(compgen -W '@NAMES@' -- "$cur"))
        return
    fi
    [ "$cur" != = ] || cur=
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [ "$word" != = ] || continue
        if [ -n "$place" ]; then
            place=
        elif [[ $word == -* ]]; then
            given+="$word "
            _meshwright_words "$command:$word"
            [ -z "$takes" ] || place=$word
        else
            count=$((count + 1))
        fi
    done
    if [ -z "$place" ] && [[ $cur == -* ]]; then
        _meshwright_words "$command:options"
        for word in $words; do
            [[ $given == *" $word "* ]] || [[ $word != "$cur"* ]] || COMPREPLY+=("$word")
        done
        return
    fi
    [ -n "$place" ] || { [ "$count" -eq 0 ] && place=first || place=next; }
    _meshwright_words "$command:$place"
    case $words in
    @file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    @folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    esac
}

complete -F _meshwright meshwright
