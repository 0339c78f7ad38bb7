// tunnel.c: holds a TUN interface, which has a carrier only then, until a signal ends the program.
//
//   tunnel INTERFACE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR);
	if (argc < 2 || fd < 0)
		return 3;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", argv[1]);
	if (ioctl(fd, TUNSETIFF, &request)) {
		perror("TUNSETIFF");
		return 1;
	}
	for (;;)
		pause();
}
