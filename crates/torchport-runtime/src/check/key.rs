//! Names in a trace: `call` and `call:1` are outputs, `call<0` is an input, `call/node` is one operation's value,
//! `root>0` is what the program gives in the end.

pub(super) fn input(call: &str, index: usize) -> String {
    format!("{call}<{index}")
}

pub(super) fn output(call: &str, index: usize) -> String {
    match index {
        0 => call.to_string(),
        index => format!("{call}:{index}"),
    }
}

/// What a program gives in the end, behind the check of its root.
pub(super) fn returned(root: &str, index: usize) -> String {
    format!("{root}>{index}")
}

pub(super) fn node(call: &str, name: &str) -> String {
    format!("{call}/{name}")
}

/// The n-th call of the same module.
pub(super) fn call(path: &str, number: usize) -> String {
    match number {
        0 => path.to_string(),
        number => format!("{path}#{number}"),
    }
}

pub(super) fn is_input(key: &str) -> bool {
    key.contains('<')
}
