// A TCP sender: sends small messages at once, and a message in several pieces as one segment.
#include "common.h"
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
      connect(sender, (struct sockaddr *)&address, length) != 0)
    return 1;
  int receiver = accept(listener, NULL, NULL);
  must(punctual_tcp_send_at_once(sender), "no delay");
  char got[64] = {0};
  for (int message = 0; message < 100; message++) {
    must(punctual_tcp_cork(sender), "cork");
    if (write(sender, "head", 4) != 4 || write(sender, " body", 5) != 5)
      return 1;
    must(punctual_tcp_uncork(sender), "uncork");
    if (read(receiver, got, sizeof got - 1) != 9 || strcmp(got, "head body") != 0)
      return 1;
  }
  printf("100 messages, each read as one piece\n");
  close(sender), close(receiver), close(listener);
  return 0;
}
