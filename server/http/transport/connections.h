// Which connections are open, and which has to go for another one. Internal to server/http.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include <boost/asio/ip/address.hpp>

#include "server/http/transport/transport.h"

namespace maxsim::http {

class Connection;
class HandshakeThreads;

// Who is one peer for the bounds: an IPv4 address, or the 64 bits of an IPv6 address that name a network, within which
// one peer may have any.
using PeerKey = std::array<uint8_t, 8>;
PeerKey PeerKeyOf(const boost::asio::ip::address& address);

// Every connection that is open. One that has a request's slot is busy, and the others are idle. Used on the loop's
// thread only.
class Connections {
 public:
  struct Entry {
    std::shared_ptr<Connection> connection;
    uint64_t turn = 0;  // when it became idle, counted
  };
  using List = std::list<Entry>;
  // This is the list entry of a connection, from Add to Remove.
  using Position = List::iterator;

  // `on_removed` is called after a connection has left.
  Connections(TransportOptions options, Application* application, std::function<void()> on_removed);

  const TransportOptions& options() const { return options_; }
  Application& application() const { return *application_; }

  // Adds an idle connection, or throws std::bad_alloc (nothing else here that changes the lists can); where its peer,
  // or all together, have too many then, it closes the one that has been idle for longest, of this peer or else of the
  // peer that has most.
  Position Add(const PeerKey& peer, std::shared_ptr<Connection> connection);
  // Takes an idle connection out; the caller may hold its last reference.
  void Remove(const PeerKey& peer, Position position);

  // Gives an idle connection a request's slot; false when all are taken, and none by a body that comes slowly.
  bool TakeSlot(const PeerKey& peer, Position position);
  // Puts the connection back among the idle ones, as the one that became idle last.
  void ReturnSlot(const PeerKey& peer, Position position);

  // Adds `size` to the counted bytes of bodies. Returns false if that would exceed TransportOptions::max_body_memory.
  bool HoldBodyBytes(uint64_t size, const Connection* holder);
  void ReleaseBodyBytes(uint64_t size) { body_bytes_ -= size; }

  // Closes the connection that has been idle for longest, of the peer that has most.
  void DropIdle();

  // Returns a copy, for what may close them.
  std::vector<std::shared_ptr<Connection>> All() const;
  size_t size() const { return num_idle_ + busy_.size(); }

  HandshakeThreads* handshakes = nullptr;  // null where all connections are plain text
  bool draining = false;                   // no connection gets another request
  bool grace_is_over = false;              // no answer has long to be read

 private:
  struct Peer {
    List idle;            // the one that has been so for longest first
    size_t num_open = 0;  // busy ones too
  };

  // Closes the connection, other than `except`, whose body has been arriving for longest, if that is longer than
  // `slow_body`.
  bool DropSlowBody(const Connection* except);
  void Report() { application_->OnConnections(size()); }

  const TransportOptions options_;
  Application* const application_;
  const std::function<void()> on_removed_;
  std::map<PeerKey, Peer> peers_;  // that have any
  size_t num_idle_ = 0;
  uint64_t next_turn_ = 0;
  List busy_;
  uint64_t body_bytes_ = 0;  // of all counted bodies
};

}  // namespace maxsim::http
