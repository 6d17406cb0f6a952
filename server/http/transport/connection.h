// Serves one connection of the transport. It is internal to server/http.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/time/time.h"
#include "server/http/transport/connections.h"
#include "server/http/transport/request_reader.h"
#include "server/http/transport/slot_memory.h"
#include "server/http/transport/stream.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// Logs the exception that ended the work on an event.
void LogException(const std::exception& exception) noexcept;

// Reads requests one after another, and has each answered. All members run on the thread of the event loop. Operations
// in flight keep the connection alive.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::io_context* loop, boost::asio::ip::tcp::socket socket, Connections* connections);

  // Adds the connection to the idle ones and begins to read. If Start throws std::bad_alloc, it has closed the
  // connection.
  void Start();

  // Closes at once. Idempotent.
  void Close();

  // Closes unless a request is being answered.
  void Drain();

  // Returns how long the body of the current request has been arriving; zero if none is.
  absl::Duration ReceivingFor() const;

  // Closes the connection, whose body arrives slowly, to make room for another request.
  void GiveWay();

  // Closes the connection, unless the application is still handling its request. A client that has not read its answer
  // by now gets no more time.
  void EndGrace();

 private:
  using Error = boost::system::error_code;
  enum class Phase { kIdle, kHandshake, kHeader, kBody, kHandling, kWriting, kLingering, kClosed };
  struct Delivery;
  struct HandshakeStep;

  // Runs the work for an event. If memory runs out, the request gets a 503, or the connection is closed.
  template <typename Work>
  void Guarded(Work work) {
    try {
      work();
    } catch (const std::exception& exception) {
      LogException(exception);
      OnNoMemory();
    }
  }
  void OnNoMemory();

  // Begins a phase. Closes the connection if the phase takes longer than `limit`.
  void Enter(Phase phase, absl::Duration limit);
  void ReturnSlot();
  // Counts the bytes of the body that have arrived since the last call. Returns false if http.max_body_memory has no
  // room for them.
  bool HoldBody();
  std::string PeerAddress() const { return address_.has_value() ? address_->to_string() : std::string(); }

  // The functions up to CloseStream are in connection_handshake.cc. A connection on a port without certificates begins
  // with AwaitRequest.
  void AwaitFirstByte();
  void OnFirstByte();
  void BeginHandshake();
  void TakeHandshakeStep();
  void OnHandshakeStep(TlsSession::Result result);
  void CloseStream();

  void AwaitRequest();
  void BeginRequest();
  void ReceiveMore();
  void Take(RequestReader::Progress progress);
  void OnHeader();
  void AcceptBody();
  void OnRequest();
  void WatchForHangup();
  void Refuse(int status, const absl::Status& why);
  // Sends an answer. `more_to_come` says that the request has not been read to its end. Then the connection ends after
  // the answer, so that the rest is not taken for the next request.
  void Answer(Response response, bool more_to_come);
  void OnWritten(bool more_to_come);
  void Linger();
  void Discard();

  boost::asio::io_context& loop_;
  Stream stream_;
  std::optional<uint64_t> handshake_step_;  // number of a step that is queued, runs, or has just run
  boost::asio::steady_timer deadline_;
  Connections& connections_;
  std::optional<boost::asio::ip::address> address_;  // the peer's; nullopt if the peer had already gone
  PeerKey peer_{};
  std::optional<Connections::Position> position_;  // in the lists of Connections
  bool has_slot_ = false;
  uint64_t held_body_bytes_ = 0;  // bytes that Connections counts for this connection
  Phase phase_ = Phase::kIdle;
  std::chrono::steady_clock::time_point body_began_;  // the phase kBody
  RequestReader reader_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // of the request that the application has
  bool keep_alive_ = false;
  boost::beast::http::response<boost::beast::http::string_body> message_;
  std::array<char, 1024> scratch_;
  // Memory in which another thread passes an answer or a handshake's result to the event loop, so that this does not
  // allocate.
  SlotMemory delivery_memory_;
};

}  // namespace maxsim::http
