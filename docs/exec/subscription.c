/* Subscription forwarding on trees, for the kind `content`, as a program: JSON on standard input and output.
 *
 * A subscription goes to every broker, and each notes where it came from. A publication goes to where one that it
 * answers came from. The keys of an event always come in the same order, so that no more of JSON has to be read than
 * numbers. To build it: cc -O2 -o subscription subscription.c
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUBLISH, SUBSCRIBE, UNSUBSCRIBE, CLIENT = -1, ROW = 3000 }; /* ROW: numbers of the longest body */

struct Subscription { /* link: over which it came, or CLIENT */
    long long id;
    int link, client, ranges;
    double range[]; /* attribute, low, high of each */
};
struct Broker { /* link: by neighbour, with whether what is being handled goes there */
    int links, count, *link, *wanted;
    struct Subscription **known;
};
static struct Broker *brokers;
static const char *comma; /* before the next action */

#define ACT(...) (fputs(comma, stdout), comma = ",", printf(__VA_ARGS__))
#define GROWN(array, size) ((array) = realloc((array), (size) * sizeof *(array)))

static long long field(char **at, const char *key) { /* the number behind a key; a large one stands in quotes */
    *at = strstr(*at, key) + strlen(key);
    return strtoll(*at + (**at == '"'), at, 10);
}

static int numbers(char *at, double *value) { /* of a list; NaN is for null */
    int count = 0;
    for (at++; *at != ']' && count < ROW; at += *at == ',')
        value[count++] = *at == 'n' ? (at += 4, (double)NAN) : strtod(at, &at);
    return count;
}

static int matches(const struct Subscription *s, const double *value) {
    for (const double *r = s->range; r < s->range + 3 * s->ranges; r += 3)
        if (!(r[1] <= value[(int)r[0]] && value[(int)r[0]] <= r[2])) return 0;
    return 1;
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void publish(struct Broker *b, int n, int link, const double *value) {
    int clients = 0, matched = 0, client[b->count + 1];
    memset(b->wanted, 0, b->links * sizeof(int));
    for (int i = 0; i < b->count; i++) {
        const struct Subscription *s = b->known[i];
        if ((s->link == link && link != CLIENT) || !matches(s, value)) continue;
        matched++;
        if (s->link == CLIENT) client[clients++] = s->client;
        for (int l = 0; l < b->links; l++) b->wanted[l] |= b->link[l] == s->link;
    }
    for (int l = 0; l < b->links; l++)
        if (b->wanted[l]) ACT("[\"forward\",%d,%d]", n, b->link[l]);
    qsort(client, clients, sizeof(int), ascending);
    for (int c = 0; c < clients; c++)
        if (c == 0 || client[c] != client[c - 1]) ACT("[\"deliver\",%d,%d]", n, client[c]);
    ACT("[\"work\",%d,%d,%d]", n, b->count, matched);
}

static void change(struct Broker *b, int n, int type, int link, int client, long long id, double *row, int size) {
    int at = 0, ranges = 0;
    while (at < b->count && b->known[at]->id != id) at++;
    if (type == SUBSCRIBE && at == b->count) {
        while (3 * ranges < size && row[3 * ranges] == row[3 * ranges]) ranges++;
        struct Subscription *s = malloc(sizeof *s + 3 * ranges * sizeof(double));
        *s = (struct Subscription){id, link, client, ranges};
        memcpy(s->range, row, 3 * ranges * sizeof(double));
        GROWN(b->known, b->count + 1)[b->count] = s;
        b->count++;
    } else if (type == UNSUBSCRIBE && at < b->count && b->known[at]->link == link) {
        free(b->known[at]);
        b->known[at] = b->known[--b->count];
    } else
        return;
    for (int l = 0; l < b->links; l++)
        if (b->link[l] != link) ACT("[\"forward\",%d,%d]", n, b->link[l]);
    ACT("[\"entries\",%d,%d]", n, b->count);
}

static void begin(char *at) { /* behind "brokers":{ stands "3":[6,9],"4":[7] and so on */
    for (int size = 0, number; *at++ == '"'; at += 1 + (at[1] == ',')) {
        number = strtol(at, &at, 10);
        for (; size <= number; size++) GROWN(brokers, size + 1)[size] = (struct Broker){0};
        struct Broker *b = &brokers[number];
        for (at += 3; *at != ']'; at += *at == ',')
            GROWN(b->link, b->links + 1)[b->links] = strtol(at, &at, 10), b->links++;
        GROWN(b->wanted, b->links + 1);
    }
}

static void events(char *at) {
    double body[ROW];
    for (comma = ""; (at = strstr(at, "{\"n\":"));) {
        int n = field(&at, "\"n\":"), broker = field(&at, "\"broker\":"), type = field(&at, "\"type\":");
        int link = field(&at, "\"link\":"), client = field(&at, "\"client\":");
        long long word = field(&at, "\"word\":");
        at = strstr(at, "\"body\":") + strlen("\"body\":");
        int size = *at == '[' ? numbers(at, body) : 0;
        if (type == PUBLISH)
            publish(&brokers[broker], n, link, body);
        else
            change(&brokers[broker], n, type, link, client, word, body, size);
    }
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        if (strncmp(line, "{\"hello\"", 8) == 0)
            puts("{\"hello\":1,\"kind\":\"content\",\"trees_only\":true}");
        else if (strncmp(line, "{\"begin\"", 8) == 0)
            begin(strstr(line, "\"brokers\":{") + strlen("\"brokers\":{")), puts("{}");
        else
            fputs("{\"actions\":[", stdout), events(line), puts("]}");
        fflush(stdout);
    }
}
