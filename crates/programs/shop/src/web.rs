//! The web server: nginx, which serves images and style itself and forwards pages to the application server.

pub mod cover;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use fabricmark_bookstore::COVERS;

use crate::program::{Error, Owner, find};
use crate::service::Service;

/// Name of the program and of its package in Debian.
pub const NGINX: &str = "nginx";

/// Connections to the application server that are kept open.
const KEPT: u32 = 64;

/// Writes the files of the web server into a folder, and starts it at a port of all addresses.
pub fn start(folder: &Path, port: u16, application: SocketAddr) -> Result<Service, Error> {
    let nginx = find(NGINX, NGINX)?;
    let wrong = |error| Error::Folder(folder.to_owned(), error);
    write_files(&folder.join("files")).map_err(wrong)?;
    let configuration = folder.join("nginx.conf");
    fs::write(&configuration, configure(folder, port, application)).map_err(wrong)?;
    // Workers of nginx outlive a master that is killed. The kernel kills all processes of a PID namespace with its
    // first one.
    let mut command = Command::new("unshare");
    if Owner::of_servers() == Owner::Same {
        command.args(["--user", "--map-current-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child=KILL", "--"]).arg(nginx);
    command.arg("-p").arg(folder).arg("-c").arg(&configuration);
    let log = folder.join("error.log");
    command.arg("-e").arg(&log);
    let unshare_says = fs::File::create(&log).map_err(wrong)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(unshare_says));
    Service::start(command)
        .map_err(|error| Error::Failed { program: NGINX, said: error.to_string() })
}

/// Version of nginx, such as `nginx/1.22.1`.
pub fn version() -> Result<String, Error> {
    let nginx = find(NGINX, NGINX)?;
    let failed = |error: io::Error| Error::Failed { program: NGINX, said: error.to_string() };
    let output = Command::new(nginx).arg("-v").output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.trim().rsplit(' ').next().unwrap_or(NGINX).to_owned())
}

fn write_files(folder: &Path) -> io::Result<()> {
    for number in 0..COVERS {
        let images = folder.join("image").join(number.to_string());
        fs::create_dir_all(&images)?;
        for kind in [cover::COVER, cover::THUMBNAIL] {
            let path = images.join(format!("{}.png", kind.name));
            fs::write(path, cover::image(number, kind))?;
        }
    }
    fs::create_dir_all(folder.join("static"))?;
    fs::write(folder.join("static/shop.css"), include_str!("../templates/shop.css"))
}

/// Configuration of nginx (nginx.org, "Core functionality", ngx_http_proxy_module, ngx_http_upstream_module).
fn configure(folder: &Path, port: u16, application: SocketAddr) -> String {
    let folder = folder.display();
    let user = match Owner::of_servers() {
        Owner::Nobody => "user nobody nogroup;",
        Owner::Mapped => "user root root;",
        Owner::Same => "",
    };
    format!(
        r#"{user}
worker_processes auto;
worker_rlimit_nofile 65536;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 16384; }}
http {{
  types {{ text/css css; image/png png; }}
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  open_file_cache max=1000;
  client_max_body_size 64k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream application {{ server {application} max_fails=0; keepalive {KEPT}; keepalive_requests 1000000; }}
  server {{
    listen {port} backlog=4096;
    listen [::]:{port} backlog=4096;
    root {folder}/files;
    location /image/ {{
      rewrite "^/image/\d*?0?(\d|[1-9]\d)/(thumbnail|cover)\.png$" /image/$1/$2.png break;
      add_header Cache-Control max-age=3600;
    }}
    location /static/ {{ add_header Cache-Control max-age=3600; }}
    location / {{
      proxy_pass http://application;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
    }}
  }}
}}
"#
    )
}
