// A TCP sender, in C++: see tcp_sender.c.
#include "../include/punctual.hpp"

#include <arpa/inet.h>
#include <cstdio>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

int main() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0 || connect(sender, generic, length) != 0)
    return 1;
  const int receiver = accept(listener, nullptr, nullptr);
  punctual::tcp_send_at_once(sender);
  for (int message = 0; message < 100; message++) {
    {
      punctual::tcp_cork cork(sender);
      if (write(sender, "head", 4) != 4 || write(sender, " body", 5) != 5)
        return 1;
    }
    char got[64] = {};
    if (read(receiver, got, sizeof got - 1) != 9 || std::strcmp(got, "head body") != 0)
      return 1;
  }
  std::printf("100 messages, each read as one piece\n");
  close(sender), close(receiver), close(listener);
  return 0;
}
