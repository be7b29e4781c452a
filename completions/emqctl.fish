function _emqctl
    set -l line (commandline -cp | string collect)
    for answer in (env COMP_LINE="$line" _EMQCTL_COMPLETE=fish_complete emqctl 2>/dev/null)
        set -l parts (string split \t -- $answer)
        switch $parts[1]
            case plain
                string join \t -- $parts[2..]
            case file
                __fish_complete_path $parts[2]
        end
    end
end

complete --no-files --keep-order --command emqctl --arguments "(_emqctl)"
