#include "server/gate/grpc_connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace maxsim::gate {
namespace {

// Returns one end of a new pair of sockets. The other end is closed.
int NewSocket() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  return ends[0];
}

TEST(GrpcConnectionsTest, CountsWhatIsOpenByPeer) {
  GrpcConnections connections;
  const int first = NewSocket();
  const int second = NewSocket();
  const int third = NewSocket();
  connections.Add(first, "192.0.2.1");
  connections.Add(second, "192.0.2.1");
  connections.Add(third, "");
  EXPECT_EQ(connections.size(), 3u);
  EXPECT_EQ(connections.of_peer("192.0.2.1"), 2u);
  EXPECT_EQ(connections.of_peer(""), 0u);
  close(first);
  connections.Sweep();
  EXPECT_EQ(connections.size(), 2u);
  EXPECT_EQ(connections.of_peer("192.0.2.1"), 1u);
  close(second);
  close(third);
  connections.Sweep();
  EXPECT_EQ(connections.size(), 0u);
  EXPECT_EQ(connections.of_peer("192.0.2.1"), 0u);
}

TEST(GrpcConnectionsTest, ADescriptorThatIsAnotherFilesByNowIsNotTheConnection) {
  GrpcConnections connections;
  const int gone = NewSocket();
  connections.Add(gone, "192.0.2.1");
  close(gone);
  const int another = NewSocket();
  EXPECT_EQ(another, gone) << "the test wants the number again";
  connections.Sweep();
  EXPECT_EQ(connections.size(), 0u);
  connections.Add(another, "192.0.2.1");
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(dup2(file, another), another);
  connections.Sweep();
  EXPECT_EQ(connections.size(), 0u);
  close(file);
  close(another);
}

}  // namespace
}  // namespace maxsim::gate
