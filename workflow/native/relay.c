/* Carries packets between two networks, with the delay, the rate and the loss of a line: it takes the place of netem
 * where the kernel has none (deployment/link.py). It ends with the process that made the two TUN devices.
 *
 * usage: relay FIRST SECOND DELAY_NS BITS_PER_S LOSS_PCT
 *
 * FIRST and SECOND are descriptors of TUN devices with IFF_VNET_HDR, open without blocking. The delay, the rate (0: no
 * limit) and the loss hold in each direction.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
/* As many packets as netem holds by default. More are dropped, as by the full queue of a router. */
#define QUEUE_LENGTH 1000
/* A packet of several segments has up to 64 KiB. */
#define LARGEST (sizeof(struct virtio_net_hdr) + 65536)
/* After this number of packets from one side, packets that are due are sent. */
#define READ_AT_ONCE 16
/* Of newer headers of Linux: a packet of several datagrams of UDP. */
#define GSO_UDP_L4 5
/* A TUN device has no Ethernet header, which a line carries. */
#define ETHERNET_BYTES 14

struct packet {
    int64_t due_ns;
    size_t bytes;
    char data[];
};

struct direction {
    int from, to;
    int64_t free_ns; /* The line has sent all earlier packets at this time. */
    int first, count;
    struct packet *queue[QUEUE_LENGTH];
};

static int64_t delay_ns;
static double bits_per_s, loss;

static void fail(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Returns the bytes of a packet on a line. A packet of several segments is sent as so many packets, each with its own
 * headers of Ethernet, IP and TCP or UDP. */
static size_t wire_bytes(const char *data, size_t bytes)
{
    const struct virtio_net_hdr *header = (const void *)data;
    const char *packet = data + sizeof *header;
    size_t length = bytes - sizeof *header;
    if (header->gso_type == VIRTIO_NET_HDR_GSO_NONE || !header->gso_size)
        return length + ETHERNET_BYTES;
    /* The checksum begins at the header of TCP or UDP. The 13th byte of TCP's header has its length in words of 4
     * bytes. */
    size_t headers = header->csum_start + 8;
    if (header->gso_type != GSO_UDP_L4 && header->csum_start + 13U <= length)
        headers = header->csum_start + ((unsigned char)packet[header->csum_start + 12] >> 4) * 4;
    if (headers > length)
        return length + ETHERNET_BYTES;
    size_t payload = length - headers;
    size_t segments = (payload + header->gso_size - 1) / header->gso_size;
    return payload + segments * (headers + ETHERNET_BYTES);
}

/* Puts a packet into the queue of its direction, with the time at which it is at the other end of the line. */
static void take(struct direction *direction, const char *data, size_t bytes)
{
    if (direction->count == QUEUE_LENGTH || (loss > 0 && drand48() < loss))
        return;
    struct packet *packet = malloc(sizeof *packet + bytes);
    if (!packet)
        fail("memory");
    int64_t sent_ns = now_ns();
    if (bits_per_s > 0) {
        if (sent_ns < direction->free_ns)
            sent_ns = direction->free_ns;
        sent_ns += wire_bytes(data, bytes) * 8 * NS_PER_S / bits_per_s;
        direction->free_ns = sent_ns;
    }
    packet->due_ns = sent_ns + delay_ns;
    packet->bytes = bytes;
    memcpy(packet->data, data, bytes);
    direction->queue[(direction->first + direction->count) % QUEUE_LENGTH] = packet;
    direction->count++;
}

/* Reads packets that wait. Returns 1 if more may wait. */
static int take_all(struct direction *direction)
{
    static char data[LARGEST];
    for (int number = 0; number < READ_AT_ONCE; number++) {
        ssize_t bytes = read(direction->from, data, sizeof data);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (bytes < 0)
            fail("read");
        if (bytes > (ssize_t)sizeof(struct virtio_net_hdr))
            take(direction, data, bytes);
    }
    return 1;
}

/* Sends the packets that are due. Returns the time of the next one, INT64_MAX without one. */
static int64_t send_due(struct direction *direction)
{
    while (direction->count) {
        struct packet *packet = direction->queue[direction->first];
        if (packet->due_ns > now_ns())
            return packet->due_ns;
        /* A packet that the network does not take is lost. */
        if (write(direction->to, packet->data, packet->bytes) < 0 && errno == EBADFD)
            fail("write");
        free(packet);
        direction->first = (direction->first + 1) % QUEUE_LENGTH;
        direction->count--;
    }
    return INT64_MAX;
}

int main(int count, char **arguments)
{
    if (count != 6) {
        fprintf(stderr, "usage: relay FIRST SECOND DELAY_NS BITS_PER_S LOSS_PCT\n");
        return 2;
    }
    int first = atoi(arguments[1]), second = atoi(arguments[2]);
    delay_ns = atoll(arguments[3]);
    bits_per_s = atof(arguments[4]);
    loss = atof(arguments[5]) / 100;
    srand48(now_ns());
    static struct direction directions[2];
    directions[0].from = directions[1].to = first;
    directions[1].from = directions[0].to = second;
    struct pollfd files[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};

    /* A line needs no processor. Without this right, a packet may be late while all processors are busy. */
    struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    /* By default, the kernel delays the end of a wait by up to 50 microseconds. */
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        int may_wait = 1;
        int64_t next_ns = INT64_MAX;
        for (int side = 0; side < 2; side++) {
            if (take_all(&directions[side]))
                may_wait = 0;
            int64_t due_ns = send_due(&directions[side]);
            if (due_ns < next_ns)
                next_ns = due_ns;
        }
        if (!may_wait)
            continue;
        int64_t wait_ns = next_ns - now_ns();
        if (wait_ns <= 0)
            continue;
        struct timespec wait = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
        if (ppoll(files, 2, next_ns == INT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR)
            fail("ppoll");
    }
}
