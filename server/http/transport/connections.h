// Keeps the open connections, and chooses which one to close to make room for another. Internal to server/http.
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

// Identifies a peer for the limits: an IPv4 address, or the first 64 bits of an IPv6 address. These 64 bits name a
// network, and one peer may use any address of its network.
using PeerKey = std::array<uint8_t, 8>;
PeerKey PeerKeyOf(const boost::asio::ip::address& address);

// All open connections. A connection that holds a request slot is busy, and the others are idle. Used on the loop's
// thread only.
class Connections {
 public:
  struct Entry {
    std::shared_ptr<Connection> connection;
    uint64_t turn = 0;  // counts up each time that a connection becomes idle
  };
  using List = std::list<Entry>;
  // The list entry of a connection, valid from Add to Remove.
  using Position = List::iterator;

  // `on_removed` is called after a connection has been removed.
  Connections(TransportOptions options, Application* application, std::function<void()> on_removed);

  const TransportOptions& options() const { return options_; }
  Application& application() const { return *application_; }

  // Adds an idle connection. If its peer then has too many idle ones, closes the peer's longest idle one. If all
  // peers together have too many, closes the longest idle one of the peer that has most. Throws std::bad_alloc; no
  // other change of the lists allocates.
  Position Add(const PeerKey& peer, std::shared_ptr<Connection> connection);
  // Removes an idle connection; afterwards the caller may hold its last reference.
  void Remove(const PeerKey& peer, Position position);

  // Gives an idle connection a request slot, if necessary by closing a connection with a slow body. Returns false if no
  // slot is available.
  bool TakeSlot(const PeerKey& peer, Position position);
  // Takes the request slot back from a connection, and adds the connection to the idle ones.
  void ReturnSlot(const PeerKey& peer, Position position);

  // Adds `size` to the counted bytes of bodies. To stay within TransportOptions::max_body_memory, closes connections
  // with slow bodies, other than `holder`. Returns false if that makes too little room.
  bool HoldBodyBytes(uint64_t size, const Connection* holder);
  void ReleaseBodyBytes(uint64_t size) { body_bytes_ -= size; }

  // Closes the longest idle connection of the peer that has most of them.
  void DropIdle();

  // Returns a copy, so that the caller may close connections while it goes through them.
  std::vector<std::shared_ptr<Connection>> All() const;
  size_t size() const { return num_idle_ + busy_.size(); }

  HandshakeThreads* handshakes = nullptr;  // null if all connections are plain text
  bool draining = false;                   // no connection gets another request
  bool grace_is_over = false;              // clients get little time to read their answers

 private:
  struct Peer {
    List idle;            // longest idle first
    size_t num_open = 0;  // including busy ones
  };

  // Closes the connection, other than `except`, whose body has been arriving longest, if it has been arriving for
  // longer than `slow_body`. Returns whether it closed one.
  bool DropSlowBody(const Connection* except);
  void Report() { application_->OnConnections(size()); }

  const TransportOptions options_;
  Application* const application_;
  const std::function<void()> on_removed_;
  std::map<PeerKey, Peer> peers_;  // peers with open connections
  size_t num_idle_ = 0;
  uint64_t next_turn_ = 0;
  List busy_;
  uint64_t body_bytes_ = 0;  // sum over all bodies
};

}  // namespace maxsim::http
