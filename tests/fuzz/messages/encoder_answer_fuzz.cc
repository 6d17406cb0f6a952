// Fuzzes the answers of an encoder in each dialect: a whole HTTP answer, as a connection reads it, or only a body. If
// an answer is accepted, its matrices must have the numbers of the body, and scoring must be possible. If it is
// refused, the error message must be printable and must not contain the bearer token.
//
// The first byte of the input chooses the dialect, and whether the input has an HTTP head. The second byte chooses the
// number of texts and the dimension. The third byte chooses the pieces in which the other bytes arrive. A digit such as
// '2' stands for its value, so that inputs can be written by hand.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "kernels/limits.h"
#include "nlohmann/json.hpp"
#include "server/encoder/answer.h"
#include "server/encoder/dialect.h"
#include "server/encoder/http_connection.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using encoder::Dialect;
using encoder::HttpConnection;
using encoder::HttpOutcome;

constexpr std::string_view kSecret = "t0ken/of+the=encoder";
constexpr uint64_t kMaxAnswerBytes = 8192;
constexpr size_t kNumChoices = 3;

void RequirePrintable(const std::string& text) {
  Require(IsUtf8(text), "a message is UTF-8");
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    Require(byte >= 0x20 && byte != 0x7f, "a message holds no control character");
  }
}

// An encoder on this machine that answers each connection with given bytes, and an event loop for the client.
class Encoder {
 public:
  Encoder() : acceptor_(loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    peer_.url.host = "127.0.0.1";
    peer_.url.port = std::to_string(acceptor_.local_endpoint().port());
  }

  // Makes a call, answers it with `bytes`, and closes the connection. Returns the outcome of the call. Sends the bytes
  // in one piece if `seed` is 0, otherwise in several.
  HttpOutcome Answer(std::string_view bytes, unsigned seed) {
    boost::system::error_code ignored;
    std::optional<HttpOutcome> outcome;
    const auto connection = std::make_shared<HttpConnection>(&client_loop_, &peer_);
    connection->Send({.path = "/encode", .body = "{}"}, absl::Seconds(20), kMaxAnswerBytes, [&](HttpOutcome came) {
      Require(!outcome.has_value(), "a call ends once");
      outcome = std::move(came);
    });
    const auto step = [&] {
      client_loop_.restart();
      client_loop_.run_one();
    };
    tcp::socket socket(loop_);
    acceptor_.non_blocking(true);
    while (!socket.is_open()) {
      step();
      acceptor_.accept(socket, ignored);
    }
    // Waits for the request. Closing a connection with unread bytes would reset it, and the answer could be lost.
    while (socket.available() == 0) step();
    std::string request(socket.available(), ' ');
    socket.receive(asio::buffer(request));
    while (!bytes.empty() && !outcome.has_value()) {
      const size_t size = seed == 0 ? bytes.size() : std::min<size_t>(1 + bytes.size() * (seed % 8) / 16, bytes.size());
      asio::write(socket, asio::buffer(bytes.data(), size), ignored);
      bytes.remove_prefix(size);
      client_loop_.restart();
      client_loop_.poll();
    }
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    while (!outcome.has_value()) step();
    if (!outcome->error.ok()) Require(!connection->IsUsable(), "a connection whose call failed is not used again");
    connection->Close();
    client_loop_.restart();
    client_loop_.run();
    return *std::move(outcome);
  }

 private:
  encoder::HttpPeer peer_;
  asio::io_context loop_{1};
  asio::io_context client_loop_{1};
  tcp::acceptor acceptor_;
};

// Returns the body of a complete answer with status 200, otherwise nullopt.
std::optional<std::string> BodyOf(std::string_view answer, unsigned seed) {
  static Encoder& fake = *new Encoder();
  HttpOutcome whole = fake.Answer(answer, 0);
  if (seed != 0) {
    const HttpOutcome cut = fake.Answer(answer, seed);
    Require(cut.error.ok() == whole.error.ok() && cut.status == whole.status && cut.body == whole.body,
            "an answer is the same however it is cut");
  }
  Require(!whole.timed_out, "an answer that ends is not waited for");
  if (!whole.error.ok()) {
    Require(absl::IsUnavailable(whole.error), "what is no answer is UNAVAILABLE");
    RequirePrintable(std::string(whole.error.message()));
    return std::nullopt;
  }
  Require(whole.body.size() <= kMaxAnswerBytes, "no answer is larger than its limit");
  Require(whole.status < 100 || whole.status > 199 || whole.status == 101, "an interim answer is not the answer");
  if (whole.retry_after.has_value()) {
    Require(*whole.retry_after >= absl::ZeroDuration() && *whole.retry_after <= absl::Hours(1),
            "Retry-After is bounded");
  }
  if (whole.status != 200) return std::nullopt;
  return std::move(whole.body);
}

// Narrows a number as the server does: converts a 64-bit integer directly to float, without a double in between.
float ValueOf(const nlohmann::json& value) {
  const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (value.is_number_integer() && !is_large) return static_cast<float>(value.get<int64_t>());
  return static_cast<float>(value.get<double>());
}

// Requires the same matrices that a parser that builds a tree finds in TEI's format, [[[value, ...], ...], ...].
void CheckTei(std::string_view body, const encoder::Answer& answer) {
  const nlohmann::json lists = nlohmann::json::parse(body);
  Require(lists.size() == answer.texts.size(), "each text has its list");
  for (size_t text = 0; text < lists.size(); ++text) {
    Require(lists[text].size() == static_cast<size_t>(answer.texts[text].num_tokens), "each token has its row");
    const float* next = answer.texts[text].values.data();
    for (const nlohmann::json& row : lists[text]) {
      for (const nlohmann::json& value : row) {
        Require(ValueOf(value) == *next++, "a value is the body's");
      }
    }
  }
}

void CheckAnswer(Dialect dialect, std::string_view body, size_t num_texts, int32_t dim) {
  const absl::StatusOr<encoder::Answer> answer = encoder::ParseAnswer(dialect, body, num_texts, dim);
  if (!answer.ok()) {
    Require(absl::IsUnavailable(answer.status()) || absl::IsInternal(answer.status()), "the encoder is to blame");
    RequirePrintable(std::string(answer.status().message()));
    return;
  }
  Require(answer->texts.size() == num_texts, "each text has a matrix");
  for (const encoder::EncodedText& text : answer->texts) {
    Require(text.dim == (dim != 0 ? dim : answer->texts[0].dim), "all vectors have one dimension");
    Require(text.dim >= kMinDim && text.dim <= kMaxDim && text.num_tokens > 0, "a matrix has vectors");
    const size_t size = static_cast<size_t>(text.num_tokens) * static_cast<size_t>(text.dim);
    Require(text.values.size() == size, "a matrix has its values");
    Require(std::all_of(text.values.begin(), text.values.end(), [](float value) { return std::isfinite(value); }),
            "a value can be scored");
    Require(text.pieces.empty() || text.pieces.size() == static_cast<size_t>(text.num_tokens),
            "each token has a piece, or none has");
  }
  if (dialect == Dialect::kTei) CheckTei(body, *answer);
}

void CheckError(std::string_view body) {
  // Replaces each byte 1 of the input by the bearer token, because the fuzzer would hardly find the token itself.
  std::string quoting;
  for (const char c : body) c == '\1' ? quoting.append(kSecret) : quoting.append(1, c);
  const std::string said = encoder::SaidInError(quoting, kSecret);
  Require(said.size() <= encoder::kMaxSaidBytes, "what an error says is bounded");
  Require(said.find(kSecret) == std::string::npos, "what an error says has no token");
  RequirePrintable(said);
}

void FuzzEncoderAnswer(std::string_view input) {
  if (input.size() < kNumChoices) return;
  constexpr Dialect kDialects[] = {Dialect::kVllm, Dialect::kOpenAi, Dialect::kTei, Dialect::kMaxsim};
  const auto choice = [&](size_t idx) { return static_cast<unsigned char>(input[idx]); };
  const Dialect dialect = kDialects[choice(0) & 3];
  const bool has_head = (choice(0) & 4) != 0;
  const size_t num_texts = 1 + (choice(1) & 3);
  const int32_t dim = (choice(1) & 4) != 0 ? kMinDim : 0;
  const std::string_view bytes = input.substr(kNumChoices);
  if (!has_head) {
    CheckAnswer(dialect, bytes, num_texts, dim);
    return CheckError(bytes);
  }
  if (const std::optional<std::string> body = BodyOf(bytes, choice(2) & 15))
    CheckAnswer(dialect, *body, num_texts, dim);
}

const Registration kEncoderAnswerTarget("encoder_answer", &FuzzEncoderAnswer);

}  // namespace
}  // namespace maxsim::fuzz
