//! Units that start the daemon at login, for users who do not want to wait until a command needs it.

use std::path::Path;

pub(crate) fn systemd(program: &Path) -> String {
    format!(
        "[Unit]\nDescription=baton: keeps coding agents working across the limit of their context window\n\n\
         [Service]\nExecStart={} serve\nRestart=on-failure\n\
         # The agents that it started must survive it.\nKillMode=process\n\n\
         [Install]\nWantedBy=default.target\n",
        escaped(program)
    )
}

/// A path in systemd's syntax: quoted, with special characters escaped.
fn escaped(program: &Path) -> String {
    let text = program.display().to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", text.replace('$', "$$"))
}

pub(crate) fn launchd(program: &Path) -> String {
    let text = program.display().to_string();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  <string>baton.serve</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n    <string>{text}</string>\n    <string>serve</string>\n  </array>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
         <key>AbandonProcessGroup</key>\n  <true/>\n</dict>\n</plist>\n"
    )
}
