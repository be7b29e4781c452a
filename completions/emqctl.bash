_emqctl() {
    local line=${COMP_LINE:0:COMP_POINT} kept kind value help
    kept=${line##*[[:space:]]}
    kept=${kept%"${kept##*[$COMP_WORDBREAKS]}"}
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("${value#"$kept"}") ;;
            file) compopt -o default ;;
        esac
    done < <(env COMP_LINE="$line" _EMQCTL_COMPLETE=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F _emqctl emqctl
