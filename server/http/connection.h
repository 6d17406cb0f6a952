// One connection of the transport. Internal to server/http.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/time/time.h"
#include "server/http/transport.h"

namespace maxsim::http {

class Connection;

// Every connection that is open; each is in one of the lists, and knows where. Used on the loop's thread only.
struct Connections {
  using List = std::list<std::shared_ptr<Connection>>;

  // Gives `place` a request's slot; false when all are taken, and none by a body that comes slowly.
  bool TakeSlot(List::iterator place);
  // Back to the idle, as the one that became so last.
  void ReturnSlot(List::iterator place);

  const TransportOptions options;
  Application* const application;
  const std::function<void()> on_removed;  // after a connection has left the lists
  List idle{};                             // the one that has been so for longest first
  List busy{};                             // those that have a slot
  bool draining = false;                   // no connection gets another request
  bool in_a_hurry = false;                 // no answer has long to be read
};

// Reads a request, has it answered, and goes on with the next. All members run on the loop's thread; operations in
// flight keep the connection alive.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::io_context* loop, boost::asio::ip::tcp::socket socket, Connections* connections);

  // Puts itself into the list of idle connections and begins.
  void Start();

  // Closes at once. Idempotent.
  void Close();

  // Closes unless a request is being answered.
  void Drain();

  // For how long its body has been on its way; zero in other phases.
  absl::Duration ReceivingFor() const;

  // Closes, for another request is to have the place of its body.
  void GiveWay();

  // Closes unless the application still has the request: whose client reads slowly has had its time.
  void EndGrace();

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Phase { kIdle, kHeader, kBody, kHandling, kWriting, kLingering, kClosed };

  // Closes the connection if the phase is not over in time.
  void Enter(Phase phase, absl::Duration limit);
  void ReturnSlot();
  void AwaitRequest();
  void ReadHeader();
  void OnHeader(Error error);
  // INVALID_ARGUMENT for a request whose end could be read in two ways.
  absl::Status CheckFraming() const;
  void AcceptBody();
  void ReadBody();
  void OnBody(Error error);
  void WatchForHangup();
  void OnReadError(Error error);
  void Refuse(int status, const absl::Status& why);
  // The rest of a request that is answered early must not be taken for the next one: then `more_to_come` ends the
  // connection.
  void Answer(Response response, bool more_to_come);
  void OnWritten(Error error, bool more_to_come);
  void Linger();
  void Discard();

  boost::asio::io_context& loop_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  Connections& connections_;
  Connections::List::iterator place_;
  bool has_slot_ = false;
  Phase phase_ = Phase::kIdle;
  std::chrono::steady_clock::time_point body_began_;  // the phase kBody
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;
  bool is_head_ = false;
  bool keep_alive_ = false;
  unsigned version_ = 11;
  boost::beast::http::response<boost::beast::http::string_body> message_;
  std::array<char, 4096> scratch_;
};

}  // namespace maxsim::http
