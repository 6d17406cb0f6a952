// A fake encoder: listens on a free port, speaks HTTP/1.1 in plain text or TLS, and answers as the test tells it to. It
// can delay an answer, break it off, or send an answer that never ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace maxsim::test {

struct FakeCall {
  std::string method = {};
  std::string target = {};
  std::string authorization = {};
  std::string traceparent = {};
  std::string tracestate = {};
  std::string body = {};
  int connection = 0;  // number of the connection, in the order of acceptance, from 0
  int number = 0;      // number of the call, in the order of arrival, from 0
};

struct FakeReply {
  int status = 200;
  std::string body = {};
  std::string retry_after = {};        // value of the header Retry-After; "": no header
  std::chrono::milliseconds delay{0};  // wait before the first byte; cut short when the encoder stops
  bool closes_unanswered = false;      // closes the connection without an answer
  bool is_cut_off = false;             // sends half of the body and closes the connection
  bool closes = false;                 // sends "Connection: close", and closes after the answer
  // If not empty: sends `body` as raw bytes (it must include the HTTP header), then repeats this text until the client
  // closes.
  std::string endless_piece = {};
  std::chrono::milliseconds piece_delay{0};  // between pieces
};

// A self-signed certificate for the name "encoder.test" and its key, both in PEM.
struct FakeCertificate {
  std::string certificate;
  std::string key;
};
FakeCertificate MakeCertificate();

class FakeEncoder {
 public:
  // Runs on a thread of each connection and must be thread-safe.
  using Handler = std::function<FakeReply(const FakeCall&)>;

  // Uses TLS if `certificate` is not null, otherwise plain text.
  explicit FakeEncoder(Handler handler, const FakeCertificate* certificate = nullptr);
  ~FakeEncoder();

  int port() const;
  std::string url() const;
  int num_calls() const;
  int num_connections() const;
  // The largest number of calls that were in progress at the same time.
  int max_concurrent_calls() const;
  std::vector<FakeCall> calls() const;

  // Waits until `count` calls have arrived. Returns false if they have not arrived within kTestLimit (eventually.h).
  bool WaitForCalls(int count) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Returns the texts of a call in the dialects vllm, openai, tei and maxsim.
std::vector<std::string> TextsOf(const FakeCall& call);

// Returns the matrix that the fake encoder answers for a text, row-major. It has one row per word, or a single row if
// the text is empty. Value i of row r is: length of the word + i / 16 + r.
std::vector<float> MatrixOf(const std::string& text, int dim);

// Answers in the dialects vllm ("data"), openai ("embedding") and tei.
std::string AnswerObjects(const std::vector<std::string>& texts, int dim, const std::string& member);
std::string AnswerList(const std::vector<std::string>& texts, int dim);

}  // namespace maxsim::test
