//! A small HTTP server that answers as a test says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use maxsim::serde_json::{from_slice, Value};

/// A request that the server got. The names of headers are in lower case.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    /// Null if there is none.
    pub body: Value,
}

/// What the server does with a request.
pub enum Reply {
    /// Answers with a status, headers such as `"retry-after: 1\r\n"`, and a body.
    Answer(u16, &'static str, String),
    /// Sends the body in chunks of a few bytes.
    Chunked(String),
    /// Closes the connection without an answer.
    Close,
    /// Closes the connection before the last byte of this body.
    Cut(String),
    /// Never answers.
    Hang,
    /// Answers with this body, and then reads nothing more.
    AnswerAndHang(String),
}

impl Reply {
    pub fn ok(body: impl ToString) -> Self {
        Self::Answer(200, "", body.to_string())
    }
}

pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server, which runs until the test program ends. `answer` gets the request and its number, from 0.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, requests: Arc::default(), connections: Arc::default() };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, answer) = (requests.clone(), answer.clone());
                thread::spawn(move || serve(stream.unwrap(), &requests, &*answer));
            }
        });
        server
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    pub fn num_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request, usize) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader) {
        let number = {
            let mut all = requests.lock().unwrap();
            all.push(request.clone());
            all.len() - 1
        };
        match answer(&request, number) {
            Reply::Answer(status, headers, body) => {
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}").unwrap();
            }
            Reply::Chunked(body) => {
                write!(stream, "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
                for chunk in body.as_bytes().chunks(7) {
                    write!(stream, "{:x}\r\n", chunk.len()).unwrap();
                    stream.write_all(chunk).unwrap();
                    write!(stream, "\r\n").unwrap();
                }
                write!(stream, "0\r\n\r\n").unwrap();
            }
            Reply::Close => return,
            Reply::Cut(body) => {
                let (length, sent) = (body.len(), &body[..body.len() - 1]);
                write!(stream, "HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n{sent}").unwrap();
                return;
            }
            Reply::Hang => hang(),
            Reply::AnswerAndHang(body) => {
                let length = body.len();
                write!(stream, "HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
                hang();
            }
        }
    }
}

fn hang() -> ! {
    loop {
        thread::park();
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_string()),
        }
    }
    let mut words = lines[0].split(' ');
    let (method, path) = (words.next()?.into(), words.next()?.into());
    let pairs = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers: HashMap<_, _> = pairs.map(|(name, value)| (name.to_lowercase(), value.to_string())).collect();
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: from_slice(&body).unwrap_or_default() })
}
