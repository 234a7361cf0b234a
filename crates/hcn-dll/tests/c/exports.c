/*
 * Calls every export of computenetwork.dll and vmcompute.dll as a Windows program does: from eight threads, with arguments
 * that are right, NULL, and wrong in the ways that programs are. Checks each HRESULT, each error record, and that neither
 * task memory, nor handles, nor the heap grow.
 *
 * It speaks to an emulated HNS that is its own (TRANSOM_HNS, or transom-hns.json beside the DLLs) and leaves nothing behind.
 *
 *   x86_64-w64-mingw32-gcc -std=c11 -O2 -Wall -Wextra -Werror exports.c -o exports.exe -lole32 -luuid
 *   exports.exe [SECONDS]
 *
 * The last line sums up; the exit code is 0 only if all was right. Lines before it say what was not.
 */
#define _WIN32_WINNT 0x0A00
#define COBJMACROS
#include <windows.h>
#include <objbase.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

#define THREADS 8
/* How many failures are printed one by one. */
#define PRINTED 25
/* How much the heap may grow: what allocators and threads keep for themselves. */
#define HEAP_SLACK (512 * 1024)
#define HANDLE_SLACK 16

#define HR_POINTER ((HRESULT)0x80004003)
#define HR_NOTIMPL ((HRESULT)0x80004001)
#define HR_HANDLE ((HRESULT)0x80070006)
#define HR_INVALID ((HRESULT)0x80070057)
#define HR_EXISTS ((HRESULT)0x80071392)
#define HR_NOT_FOUND ((HRESULT)0x80070490)
#define HR_NETWORK ((HRESULT)0x803B0001)
#define HR_ENDPOINT ((HRESULT)0x803B0002)
#define HR_PORT ((HRESULT)0x803B0013)
#define HR_JSON ((HRESULT)0x803B001B)

#define V2 L"{\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}"

typedef void *Handle;
typedef void(WINAPI *Callback)(DWORD, void *, HRESULT, PCWSTR);
typedef HRESULT(WINAPI *Enumerate)(PCWSTR, PWSTR *, PWSTR *);
typedef HRESULT(WINAPI *Create)(const GUID *, PCWSTR, Handle *, PWSTR *);
typedef HRESULT(WINAPI *CreateEndpoint)(Handle, const GUID *, PCWSTR, Handle *, PWSTR *);
typedef HRESULT(WINAPI *Open)(const GUID *, Handle *, PWSTR *);
typedef HRESULT(WINAPI *Modify)(Handle, PCWSTR, PWSTR *);
typedef HRESULT(WINAPI *Query)(Handle, PCWSTR, PWSTR *, PWSTR *);
typedef HRESULT(WINAPI *Delete)(const GUID *, PWSTR *);
typedef HRESULT(WINAPI *Close)(Handle);
typedef HRESULT(WINAPI *RegisterService)(Callback, void *, Handle *);
typedef HRESULT(WINAPI *RegisterObject)(Handle, Callback, void *, Handle *);
typedef HRESULT(WINAPI *HnsCall)(PCWSTR, PCWSTR, PCWSTR, PWSTR *);
typedef HRESULT(WINAPI *HcsCreate)(PCWSTR, PCWSTR, HANDLE, Handle *, PWSTR *);
typedef HRESULT(WINAPI *Nothing)(void);
typedef struct {
    USHORT first, last;
} Range;
typedef struct {
    GUID owner, target;
    int protocol;
    UINT64 priority;
    UINT32 reservation_type, sharing_flags, delivery_mode;
    USHORT first, last;
} RangeEntry;
typedef HRESULT(WINAPI *ReservePort)(Handle, int, int, USHORT, HANDLE *);
typedef HRESULT(WINAPI *ReserveRange)(Handle, USHORT, Range *, HANDLE *);
typedef HRESULT(WINAPI *EnumerateReservations)(ULONG *, RangeEntry **);
typedef void(WINAPI *FreeReservations)(RangeEntry *);

enum { NETWORK, ENDPOINT, NAMESPACE, BALANCER, ROUTE, GUEST, KINDS };

static struct Family {
    const char *word;
    HRESULT not_found;
    Enumerate enumerate;
    Create create; /* not of endpoints */
    Open open;
    Modify modify;
    Query query;
    Delete delete;
    Close close;
} family[KINDS] = {
    [NETWORK] = {.word = "Network", .not_found = HR_NETWORK},
    [ENDPOINT] = {.word = "Endpoint", .not_found = HR_ENDPOINT},
    [NAMESPACE] = {.word = "Namespace", .not_found = HR_NOT_FOUND},
    [BALANCER] = {.word = "LoadBalancer", .not_found = HR_NOT_FOUND},
    [ROUTE] = {.word = "SdnRoute", .not_found = HR_NOT_FOUND},
    [GUEST] = {.word = "GuestNetworkService", .not_found = HR_NOT_FOUND},
};

static CreateEndpoint create_endpoint;
static Query endpoint_stats, endpoint_addresses;
static Nothing query_metrics, query_features;
static RegisterService register_service;
static RegisterObject register_network, register_guest;
static Close unregister_service, unregister_network, unregister_guest, release_port;
static ReservePort reserve_port;
static ReserveRange reserve_range;
static EnumerateReservations enumerate_reservations;
static FreeReservations free_reservations;
static HnsCall hns_call;
static Enumerate hcs_enumerate;
static HcsCreate hcs_create;
static HMODULE computenetwork, vmcompute;

static volatile LONG failures;
static volatile LONG64 calls;
static volatile LONG64 notifications;
static volatile LONG stop;

/* ---- what went wrong ---- */

static void fail(const char *what, ...) {
    va_list arguments;
    if (InterlockedIncrement(&failures) > PRINTED) return;
    va_start(arguments, what);
    fputs("wrong: ", stdout);
    vprintf(what, arguments);
    putchar('\n');
    va_end(arguments);
    fflush(stdout);
}

static void expect(HRESULT found, HRESULT wanted, const char *what) {
    InterlockedIncrement64(&calls);
    if (found != wanted) fail("%s: 0x%08lX, not 0x%08lX", what, (unsigned long)found, (unsigned long)wanted);
}

/* ---- task memory: counted while a spy is registered ---- */

static volatile LONG64 blocks;

static HRESULT STDMETHODCALLTYPE spy_query(IMallocSpy *self, REFIID iid, void **out) {
    if (!IsEqualIID(iid, &IID_IMallocSpy) && !IsEqualIID(iid, &IID_IUnknown)) {
        *out = NULL;
        return E_NOINTERFACE;
    }
    *out = self;
    return S_OK;
}
static ULONG STDMETHODCALLTYPE spy_count(IMallocSpy *self) {
    (void)self;
    return 1;
}
static SIZE_T STDMETHODCALLTYPE spy_pre_alloc(IMallocSpy *self, SIZE_T bytes) {
    (void)self;
    return bytes;
}
static void *STDMETHODCALLTYPE spy_post_alloc(IMallocSpy *self, void *block) {
    (void)self;
    if (block) InterlockedIncrement64(&blocks);
    return block;
}
static void *STDMETHODCALLTYPE spy_pre_free(IMallocSpy *self, void *block, BOOL spied) {
    (void)self;
    if (spied && block) InterlockedDecrement64(&blocks);
    return block;
}
static void STDMETHODCALLTYPE spy_post_free(IMallocSpy *self, BOOL spied) {
    (void)self;
    (void)spied;
}
static SIZE_T STDMETHODCALLTYPE spy_pre_realloc(IMallocSpy *self, void *block, SIZE_T bytes, void **out, BOOL spied) {
    (void)self;
    (void)spied;
    *out = block;
    return bytes;
}
static void *STDMETHODCALLTYPE spy_post_realloc(IMallocSpy *self, void *block, BOOL spied) {
    (void)self;
    (void)spied;
    return block;
}
static void *STDMETHODCALLTYPE spy_pre_size(IMallocSpy *self, void *block, BOOL spied) {
    (void)self;
    (void)spied;
    return block;
}
static SIZE_T STDMETHODCALLTYPE spy_post_size(IMallocSpy *self, SIZE_T bytes, BOOL spied) {
    (void)self;
    (void)spied;
    return bytes;
}
static int STDMETHODCALLTYPE spy_post_did(IMallocSpy *self, void *block, BOOL spied, int found) {
    (void)self;
    (void)block;
    (void)spied;
    return found;
}
static void STDMETHODCALLTYPE spy_minimize(IMallocSpy *self) {
    (void)self;
}
static IMallocSpyVtbl spy_table = {
    .QueryInterface = spy_query,
    .AddRef = spy_count,
    .Release = spy_count,
    .PreAlloc = spy_pre_alloc,
    .PostAlloc = spy_post_alloc,
    .PreFree = spy_pre_free,
    .PostFree = spy_post_free,
    .PreRealloc = spy_pre_realloc,
    .PostRealloc = spy_post_realloc,
    .PreGetSize = spy_pre_size,
    .PostGetSize = spy_post_size,
    .PreDidAlloc = spy_pre_size,
    .PostDidAlloc = spy_post_did,
    .PreHeapMinimize = spy_minimize,
    .PostHeapMinimize = spy_minimize,
};
static IMallocSpy spy = {&spy_table};

/* How many handles are open. Wine does not count them, so there each number that may be one is asked about. */
static DWORD handles_open(void) {
    DWORD open = 0, flags;
    if (GetProcessHandleCount(GetCurrentProcess(), &open) && open) return open;
    open = 0;
    for (UINT_PTR number = 4; number < 0x20000; number += 4)
        if (GetHandleInformation((HANDLE)number, &flags)) open++;
    return open;
}

/* Bytes in use of the process's heap, which the DLLs' own memory comes from. */
static SIZE_T heap_in_use(void) {
    PROCESS_HEAP_ENTRY entry = {0};
    SIZE_T bytes = 0;
    HANDLE heap = GetProcessHeap();
    HeapLock(heap);
    while (HeapWalk(heap, &entry))
        if (entry.wFlags & PROCESS_HEAP_ENTRY_BUSY) bytes += entry.cbData;
    HeapUnlock(heap);
    return bytes;
}

/* ---- arguments ---- */

/* Pages made once: where nothing is, what may only be read, and text that runs into nothing. */
static struct {
    char *gone;      /* given back */
    char *reserved;  /* never committed */
    char *read_only; /* "{}" in UTF-16 stands there */
    char *guard;
    WCHAR *runs_out; /* no NUL before the end of the page, and nothing after it */
    WCHAR *endless;  /* more than 32 Mi units without a NUL */
} page;

static void *const nowhere_low[] = {(void *)1, (void *)8, (void *)0xFFFF};

static void make_pages(void) {
    const SIZE_T size = 4096, long_size = (32u * 1024 * 1024 + 16) * sizeof(WCHAR);
    DWORD before;
    page.gone = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    page.reserved = VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_READWRITE);
    page.read_only = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    page.guard = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE | PAGE_GUARD);
    char *two = VirtualAlloc(NULL, 2 * size, MEM_RESERVE, PAGE_READWRITE);
    page.endless = VirtualAlloc(NULL, long_size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!page.gone || !page.reserved || !page.read_only || !page.guard || !two || !page.endless ||
        !VirtualAlloc(two, size, MEM_COMMIT, PAGE_READWRITE)) {
        printf("there is no memory for this test\n");
        exit(2);
    }
    VirtualFree(page.gone, 0, MEM_RELEASE);
    wcscpy((WCHAR *)page.read_only, L"{}");
    VirtualProtect(page.read_only, size, PAGE_READONLY, &before);
    for (SIZE_T at = 0; at < size / sizeof(WCHAR); at++) ((WCHAR *)two)[at] = L' ';
    page.runs_out = (WCHAR *)(two + size) - 5;
    for (SIZE_T at = 0; at < long_size / sizeof(WCHAR); at++) page.endless[at] = L' ';
}

/* A place to write to that is not one: the n-th, or NULL after the last. */
static void *bad_place(unsigned n) {
    switch (n) {
    case 0: return nowhere_low[0];
    case 1: return nowhere_low[1];
    case 2: return nowhere_low[2];
    case 3: return page.reserved;
    case 4: return page.read_only;
    case 5: return page.guard;
    case 6: return (void *)0xDEADBEEFDEADBEEFull;
    case 7: return (void *)(UINT_PTR)-4;
    default: return NULL;
    }
}

/* A text that cannot be read: the n-th, or NULL after the last. */
static WCHAR *bad_text(unsigned n) {
    switch (n) {
    case 4: return page.runs_out;
    case 5: return (WCHAR *)((char *)page.runs_out + 1);
    default: return bad_place(n);
    }
}

static Handle bad_handle(unsigned n) {
    static const UINT_PTR numbers[] = {0, 1, 0x10, 0xFFFF, 0x123450, 0x7FFFFFFF0, (UINT_PTR)-1, (UINT_PTR)-2};
    return (Handle)numbers[n % (sizeof numbers / sizeof *numbers)];
}

/* ---- results ---- */

/* Checks a call with an error record, and frees the record. */
static void recorded(HRESULT found, HRESULT wanted, PWSTR record, const char *what) {
    expect(found, wanted, what);
    if (found >= 0) {
        if (record) fail("%s: a success with an error record", what);
        return;
    }
    if (!record) {
        fail("%s: a failure without an error record", what);
        return;
    }
    WCHAR code[32];
    swprintf(code, 32, L"\"ErrorCode\":%lu}", (unsigned long)found);
    if (!wcsstr(record, code) || wcsncmp(record, L"{\"Success\":false,\"Error\":\"", 26))
        fail("%s: the error record is %ls", what, record);
    CoTaskMemFree(record);
}

/* The same for a call that hands out text; what it must hold, or NULL. */
static void text_out(HRESULT found, HRESULT wanted, PWSTR text, PWSTR record, PCWSTR part, const char *what) {
    recorded(found, wanted, record, what);
    if ((found >= 0) != (text != NULL)) fail("%s: 0x%08lX with text %p", what, (unsigned long)found, (void *)text);
    if (text) {
        if (part && !wcsstr(text, part)) fail("%s: %ls is not in %ls", what, part, text);
        CoTaskMemFree(text);
    }
}

static void handle_out(HRESULT found, HRESULT wanted, Handle handle, PWSTR record, const char *what) {
    recorded(found, wanted, record, what);
    if ((found >= 0) != (handle != NULL)) fail("%s: 0x%08lX with handle %p", what, (unsigned long)found, handle);
}

#define GARBAGE ((void *)0x55)

/* ---- what is done with right arguments ---- */

static GUID network_id;
static Handle network;

/* An id of a thread and a round. */
static GUID own_id(unsigned thread, unsigned round, unsigned what) {
    GUID id = {0x7E570000u + thread, (USHORT)(round >> 16), (USHORT)round, {(BYTE)what, 1, 2, 3, 4, 5, 6, 7}};
    return id;
}

static void id_text(const GUID *id, WCHAR *text) {
    WCHAR braces[40];
    StringFromGUID2(id, braces, 40);
    wcsncpy(text, braces + 1, 36);
    text[36] = 0;
    for (WCHAR *at = text; *at; at++)
        if (*at >= L'A' && *at <= L'F') *at += L'a' - L'A';
}

static Handle create(int kind, const GUID *id, PCWSTR settings, const char *what) {
    PWSTR record = GARBAGE;
    Handle handle = GARBAGE;
    HRESULT found = kind == ENDPOINT ? create_endpoint(network, id, settings, &handle, &record)
                                     : family[kind].create(id, settings, &handle, &record);
    handle_out(found, S_OK, handle, record, what);
    return handle;
}

/* Opens, queries, closes; deletes; then nothing is left. */
static void live_and_die(int kind, const GUID *id, Handle handle) {
    const struct Family *f = &family[kind];
    WCHAR text[40];
    PWSTR out, record;
    Handle other;
    HRESULT found;
    id_text(id, text);

    other = record = GARBAGE;
    found = f->open(id, &other, &record);
    handle_out(found, S_OK, other, record, f->word);
    if (other == handle) fail("%s: two handles are one", f->word);
    out = record = GARBAGE;
    found = f->query(handle, V2, &out, &record);
    text_out(found, S_OK, out, record, L"\"ID\":\"", f->word);
    out = record = GARBAGE;
    found = f->query(other, NULL, &out, &record);
    text_out(found, S_OK, out, record, NULL, f->word);
    out = record = GARBAGE;
    found = f->enumerate(V2, &out, &record);
    text_out(found, S_OK, out, record, NULL, f->word);

    /* Places and text at odd addresses. */
    struct {
        char before;
        char place[sizeof(PWSTR)];
        char between[sizeof(PWSTR) - 1];
        char record[sizeof(PWSTR)];
        char text[sizeof V2];
    } odd;
    memcpy(odd.text, V2, sizeof V2);
    found = f->query(other, (PCWSTR)(void *)odd.text, (PWSTR *)(void *)odd.place, (PWSTR *)(void *)odd.record);
    memcpy(&out, odd.place, sizeof out);
    memcpy(&record, odd.record, sizeof record);
    text_out(found, S_OK, out, record, NULL, f->word);

    expect(f->close(other), S_OK, f->word);
    expect(f->close(other), HR_HANDLE, f->word);
    out = record = GARBAGE;
    found = f->query(other, V2, &out, &record);
    text_out(found, HR_HANDLE, out, record, NULL, f->word);

    record = GARBAGE;
    found = f->delete(id, &record);
    recorded(found, S_OK, record, f->word);
    record = GARBAGE;
    found = f->delete(id, &record);
    recorded(found, f->not_found, record, f->word);
    expect(f->delete(id, NULL), f->not_found, f->word);
    other = record = GARBAGE;
    found = f->open(id, &other, &record);
    handle_out(found, f->not_found, other, record, f->word);
    out = record = GARBAGE;
    found = f->query(handle, V2, &out, &record);
    text_out(found, f->not_found, out, record, NULL, f->word);
    expect(f->close(handle), S_OK, f->word);
    expect(f->close(handle), HR_HANDLE, f->word);
}

static void WINAPI count_notification(DWORD kind, void *context, HRESULT status, PCWSTR data) {
    if (kind == 0 || status != 0 || data == NULL) fail("a notification of kind 0x%lX", (unsigned long)kind);
    InterlockedIncrement64((volatile LONG64 *)context);
    InterlockedIncrement64(&notifications);
}

static void right_arguments(unsigned thread, unsigned round) {
    WCHAR settings[512], text[40];
    PWSTR out, record;
    HRESULT found;
    GUID space = own_id(thread, round, NAMESPACE), endpoint = own_id(thread, round, ENDPOINT);
    GUID balancer = own_id(thread, round, BALANCER), route = own_id(thread, round, ROUTE);
    GUID guest = own_id(thread, round, GUEST);
    volatile LONG64 told = 0;
    Handle service_callback = GARBAGE, network_callback = GARBAGE, guest_callback = GARBAGE;

    expect(register_service(count_notification, (void *)&told, &service_callback), S_OK, "RegisterServiceCallback");
    expect(register_network(network, count_notification, (void *)&told, &network_callback), S_OK, "RegisterNetworkCallback");

    Handle space_handle = create(NAMESPACE, &space, L"{}", "a namespace");
    Handle again = GARBAGE;
    record = GARBAGE;
    found = family[NAMESPACE].create(&space, L"{}", &again, &record);
    handle_out(found, HR_EXISTS, again, record, "a namespace twice");

    Handle endpoint_handle = create(ENDPOINT, &endpoint, L"{\"Name\":\"e\",\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}", "an endpoint");
    id_text(&endpoint, text);
    for (int add = 1; add >= 0; add--) {
        swprintf(settings, 512, L"{\"ResourceType\":\"Endpoint\",\"RequestType\":\"%ls\",\"Settings\":{\"EndpointId\":\"%ls\"}}",
                 add ? L"Add" : L"Remove", text);
        record = GARBAGE;
        found = family[NAMESPACE].modify(space_handle, settings, &record);
        recorded(found, S_OK, record, "an endpoint into a namespace");
    }
    out = record = GARBAGE;
    found = endpoint_stats(endpoint_handle, NULL, &out, &record);
    text_out(found, S_OK, out, record, L"BytesReceived", "QueryEndpointStats");
    out = record = GARBAGE;
    found = endpoint_addresses(endpoint_handle, V2, &out, &record);
    text_out(found, S_OK, out, record, L"IpAddress", "QueryEndpointAddresses");

    swprintf(settings, 512,
             L"{\"HostComputeEndpoints\":[\"%ls\"],\"FrontendVIPs\":[\"1.1.%u.%u\"],\"PortMappings\":[{\"Protocol\":6,"
             L"\"InternalPort\":8080,\"ExternalPort\":8090}],\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}",
             text, thread + 1, round % 250 + 1);
    Handle balancer_handle = create(BALANCER, &balancer, settings, "a load balancer");
    live_and_die(BALANCER, &balancer, balancer_handle);
    swprintf(settings, 512,
             L"{\"HostComputeEndpoints\":[\"%ls\"],\"Setting\":[{\"DestinationPrefix\":\"169.254.%u.%u/32\",\"NextHop\":"
             L"\"127.10.0.34\"}],\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}",
             text, thread + 1, round % 250 + 1);
    Handle route_handle = create(ROUTE, &route, settings, "an SDN route");
    live_and_die(ROUTE, &route, route_handle);
    live_and_die(ENDPOINT, &endpoint, endpoint_handle);
    live_and_die(NAMESPACE, &space, space_handle);

    Handle guest_handle = create(GUEST, &guest, L"{\"Flags\":0}", "a guest network service");
    expect(register_guest(guest_handle, count_notification, (void *)&told, &guest_callback), S_OK, "RegisterGuestNetworkServiceCallback");
    record = GARBAGE;
    found = family[GUEST].modify(guest_handle,
        L"{\"ResourceType\":\"State\",\"RequestType\":\"Update\",\"Settings\":{\"State\":\"Started\"}}", &record);
    recorded(found, S_OK, record, "the state of a guest network service");
    USHORT port = (USHORT)(1000 + thread * 1000 + round % 1000);
    HANDLE held = GARBAGE, second = GARBAGE, ports = GARBAGE;
    Range range = {7, 7};
    expect(reserve_port(guest_handle, 1, 1, port, &held), S_OK, "a port");
    expect(reserve_port(guest_handle, 3, 2, port, &second), HR_PORT, "a port twice");
    if (second) fail("a port twice has a handle");
    expect(reserve_range(guest_handle, 4, &range, &ports), S_OK, "four ports");
    if (range.last - range.first != 3 || range.first < 49152) fail("four ports are %u to %u", range.first, range.last);
    ULONG count = 0;
    RangeEntry *entries = GARBAGE;
    expect(enumerate_reservations(&count, &entries), S_OK, "EnumerateGuestNetworkPortReservations");
    if (count < 2 || !entries) fail("%lu reservations at %p", (unsigned long)count, (void *)entries);
    free_reservations(entries);
    expect(release_port(held), S_OK, "a port released");
    expect(release_port(held), HR_HANDLE, "a port released twice");
    expect(release_port(ports), S_OK, "ports released");
    live_and_die(GUEST, &guest, guest_handle);

    out = GARBAGE;
    found = hns_call(L"GET", L"/globals/version", L"", &out);
    expect(found, S_OK, "HNSCall");
    if (found >= 0) {
        if (!wcsstr(out, L"\"Major\"")) fail("HNSCall: %ls", out);
        CoTaskMemFree(out);
    }

    expect(unregister_guest(guest_callback), S_OK, "UnregisterGuestNetworkServiceCallback");
    expect(unregister_network(network_callback), S_OK, "UnregisterNetworkCallback");
    expect(unregister_network(service_callback), HR_HANDLE, "UnregisterNetworkCallback of another kind");
    expect(unregister_service(service_callback), S_OK, "UnregisterServiceCallback");
    expect(unregister_service(service_callback), HR_HANDLE, "UnregisterServiceCallback twice");
    LONG64 then = told;
    SwitchToThread();
    if (told != then) fail("a notification came after the end of its registration");
}

/* ---- what is done with wrong arguments ---- */

static void wrong_arguments(unsigned round) {
    const GUID nobody = {0x0BAD0BAD, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
    PWSTR out, record;
    Handle handle;
    HRESULT found;
    void *place = bad_place(round % 9);
    WCHAR *text = bad_text(round % 9);
    const GUID *id = bad_place(round % 9 == 4 ? 3 : round % 9);
    HRESULT no_text = text ? HR_POINTER : HR_INVALID;
    Handle wrong = bad_handle(round);

    for (int kind = 0; kind < KINDS; kind++) {
        const struct Family *f = &family[kind];
        const char *what = f->word;
        if (text) {
            out = record = GARBAGE;
            found = f->enumerate(text, &out, &record);
            text_out(found, HR_POINTER, out, record, NULL, what);
        }
        record = GARBAGE;
        found = f->enumerate(NULL, place, &record);
        recorded(found, HR_POINTER, record, what);
        if (place) {
            out = GARBAGE;
            expect(f->enumerate(NULL, &out, place), HR_POINTER, what);
            if (out) fail("%s: a result with a wrong place for the record", what);
            expect(f->delete(&nobody, place), HR_POINTER, what);
        }
        handle = record = GARBAGE;
        found = f->open(id, &handle, &record);
        handle_out(found, HR_POINTER, handle, record, what);
        record = GARBAGE;
        found = f->open(&nobody, place, &record);
        recorded(found, HR_POINTER, record, what);
        handle = record = GARBAGE;
        found = f->open(&nobody, &handle, &record);
        handle_out(found, f->not_found, handle, record, what);
        handle = GARBAGE;
        expect(f->open(&nobody, &handle, NULL), f->not_found, what);
        record = GARBAGE;
        found = f->delete(id, &record);
        recorded(found, HR_POINTER, record, what);
        out = record = GARBAGE;
        found = f->query(wrong, NULL, &out, &record);
        text_out(found, HR_HANDLE, out, record, NULL, what);
        record = GARBAGE;
        found = f->query(wrong, NULL, place, &record);
        recorded(found, HR_POINTER, record, what);
        record = GARBAGE;
        found = f->modify(wrong, L"{}", &record);
        recorded(found, HR_HANDLE, record, what);
        record = GARBAGE;
        found = f->modify(wrong, text, &record);
        recorded(found, no_text, record, what);
        expect(f->modify(wrong, L"{}", NULL), HR_HANDLE, what);
        expect(f->close(wrong), HR_HANDLE, what);
        if (kind != NETWORK) expect(f->close(network), HR_HANDLE, what);
        if (kind == ENDPOINT) {
            handle = record = GARBAGE;
            found = create_endpoint(wrong, &nobody, L"{}", &handle, &record);
            handle_out(found, HR_HANDLE, handle, record, what);
            handle = record = GARBAGE;
            found = create_endpoint(network, id, L"{}", &handle, &record);
            handle_out(found, HR_POINTER, handle, record, what);
            handle = record = GARBAGE;
            found = create_endpoint(network, &nobody, text, &handle, &record);
            handle_out(found, no_text, handle, record, what);
            record = GARBAGE;
            found = create_endpoint(network, &nobody, L"{}", place, &record);
            recorded(found, HR_POINTER, record, what);
        } else {
            handle = record = GARBAGE;
            found = f->create(id, L"{}", &handle, &record);
            handle_out(found, HR_POINTER, handle, record, what);
            handle = record = GARBAGE;
            found = f->create(&nobody, text, &handle, &record);
            handle_out(found, no_text, handle, record, what);
            record = GARBAGE;
            found = f->create(&nobody, L"{}", place, &record);
            recorded(found, HR_POINTER, record, what);
            handle = record = GARBAGE;
            found = f->create(&nobody, L"{\"Name\":", &handle, &record);
            handle_out(found, HR_JSON, handle, record, what);
        }
        out = record = GARBAGE;
        found = f->enumerate(L"[", &out, &record);
        text_out(found, HR_JSON, out, record, NULL, what);
    }
    out = record = GARBAGE;
    found = endpoint_stats(wrong, NULL, &out, &record);
    text_out(found, HR_HANDLE, out, record, NULL, "QueryEndpointStats");
    out = record = GARBAGE;
    found = endpoint_addresses(network, NULL, &out, &record);
    text_out(found, HR_HANDLE, out, record, NULL, "QueryEndpointAddresses");
    record = GARBAGE;
    found = endpoint_stats(network, NULL, place, &record);
    recorded(found, HR_POINTER, record, "QueryEndpointStats");
    expect(query_metrics(), HR_NOTIMPL, "QueryMetrics");
    expect(query_features(), HR_NOTIMPL, "QueryFeatures");

    handle = GARBAGE;
    expect(register_service(NULL, NULL, &handle), HR_POINTER, "RegisterServiceCallback");
    handle = GARBAGE;
    /* What is no code must not be called. */
    expect(register_service((Callback)(UINT_PTR)page.read_only, NULL, &handle), HR_POINTER, "RegisterServiceCallback");
    expect(register_service(count_notification, NULL, place), HR_POINTER, "RegisterServiceCallback");
    handle = GARBAGE;
    expect(register_network(wrong, count_notification, NULL, &handle), HR_HANDLE, "RegisterNetworkCallback");
    handle = GARBAGE;
    expect(register_guest(network, count_notification, NULL, &handle), HR_HANDLE, "RegisterGuestNetworkServiceCallback");
    if (handle) fail("a registration that failed has a handle");
    expect(unregister_service(wrong), HR_HANDLE, "UnregisterServiceCallback");
    expect(unregister_network(wrong), HR_HANDLE, "UnregisterNetworkCallback");
    expect(unregister_guest(wrong), HR_HANDLE, "UnregisterGuestNetworkServiceCallback");

    handle = GARBAGE;
    expect(reserve_port(wrong, 1, 1, 80, &handle), HR_HANDLE, "ReserveGuestNetworkServicePort");
    expect(reserve_port(wrong, 1, 1, 80, place), HR_POINTER, "ReserveGuestNetworkServicePort");
    expect(reserve_range(wrong, 1, place, &handle), HR_POINTER, "ReserveGuestNetworkServicePortRange");
    if (handle) fail("a reservation that failed has a handle");
    expect(release_port(wrong), HR_HANDLE, "ReleaseGuestNetworkServicePortReservationHandle");
    expect(enumerate_reservations(place, (RangeEntry **)&handle), HR_POINTER, "EnumerateGuestNetworkPortReservations");
    free_reservations(NULL);

    out = GARBAGE;
    expect(hns_call(text, L"/networks/", L"", &out), no_text, "HNSCall");
    expect(hns_call(L"GET", text, L"", &out), no_text, "HNSCall");
    if (text) expect(hns_call(L"GET", L"/networks/", text, &out), HR_POINTER, "HNSCall");
    expect(hns_call(L"PUT", L"/networks/", L"", &out), HR_INVALID, "HNSCall");
    if (out) fail("HNSCall: a failure with a response");
    expect(hns_call(L"GET", L"/networks/", NULL, place), HR_POINTER, "HNSCall");

    out = record = GARBAGE;
    found = hcs_enumerate(NULL, &out, &record);
    text_out(found, S_OK, out, record, L"[]", "HcsEnumerateComputeSystems");
    handle = record = GARBAGE;
    expect(hcs_create(L"x", L"{}", NULL, &handle, &record), HR_NOTIMPL, "HcsCreateComputeSystem");
    if (handle || record) fail("HcsCreateComputeSystem: %p and %p", handle, (void *)record);
    expect(hcs_create(text, text, NULL, place, place), HR_NOTIMPL, "HcsCreateComputeSystem");
}

static DWORD WINAPI work(void *number) {
    unsigned thread = (unsigned)(UINT_PTR)number;
    for (unsigned round = 1; !stop; round++) {
        right_arguments(thread, round);
        wrong_arguments(thread + round);
    }
    return 0;
}

/* ---- loading ---- */

static FARPROC named(HMODULE module, const char *name) {
    FARPROC found = GetProcAddress(module, name);
    if (!found) {
        printf("there is no export %s\n", name);
        exit(2);
    }
    return found;
}

static FARPROC of_kind(const char *form, const char *word) {
    char name[96];
    snprintf(name, sizeof name, form, word);
    return named(computenetwork, name);
}

/* Function pointers of one type become ones of another; they are called as what they are. */
#define AS(type, proc) ((type)(void (*)(void))(proc))

static HMODULE load(const WCHAR *name) {
    HMODULE module = LoadLibraryExW(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (!module) {
        printf("%ls is not in System32: error %lu\n", name, (unsigned long)GetLastError());
        exit(2);
    }
    return module;
}

static const char *const absent[] = {
    "HcsOpenComputeSystem", "HcsCloseComputeSystem", "HcsStartComputeSystem", "HcsShutdownComputeSystem",
    "HcsTerminateComputeSystem", "HcsPauseComputeSystem", "HcsResumeComputeSystem", "HcsSaveComputeSystem",
    "HcsGetComputeSystemProperties", "HcsModifyComputeSystem", "HcsModifyServiceSettings", "HcsGetServiceProperties",
    "HcsRegisterComputeSystemCallback", "HcsUnregisterComputeSystemCallback", "HcsCreateProcess", "HcsOpenProcess",
    "HcsCloseProcess", "HcsTerminateProcess", "HcsSignalProcess", "HcsGetProcessInfo", "HcsGetProcessProperties",
    "HcsModifyProcess", "HcsRegisterProcessCallback", "HcsUnregisterProcessCallback", "ActivateLayer", "CopyLayer",
    "CreateLayer", "CreateSandboxLayer", "DeactivateLayer", "DestroyLayer", "ExpandSandboxSize", "ExportLayer",
    "GetBaseImages", "GetLayerMountPath", "GrantVmAccess", "ImportLayer", "LayerExists", "NameToGuid", "PrepareLayer",
    "ProcessBaseImage", "ProcessUtilityImage", "UnprepareLayer",
};

static void load_all(void) {
    computenetwork = load(L"computenetwork.dll");
    vmcompute = load(L"vmcompute.dll");
    for (int kind = 0; kind < KINDS; kind++) {
        struct Family *f = &family[kind];
        f->enumerate = AS(Enumerate, of_kind("HcnEnumerate%ss", f->word));
        if (kind == ENDPOINT)
            create_endpoint = AS(CreateEndpoint, of_kind("HcnCreate%s", f->word));
        else
            f->create = AS(Create, of_kind("HcnCreate%s", f->word));
        f->open = AS(Open, of_kind("HcnOpen%s", f->word));
        f->modify = AS(Modify, of_kind("HcnModify%s", f->word));
        f->query = AS(Query, of_kind("HcnQuery%sProperties", f->word));
        f->delete = AS(Delete, of_kind("HcnDelete%s", f->word));
        f->close = AS(Close, of_kind("HcnClose%s", f->word));
    }
    endpoint_stats = AS(Query, named(computenetwork, "HcnQueryEndpointStats"));
    endpoint_addresses = AS(Query, named(computenetwork, "HcnQueryEndpointAddresses"));
    query_metrics = AS(Nothing, named(computenetwork, "HcnQueryMetrics"));
    query_features = AS(Nothing, named(computenetwork, "HcnQueryFeatures"));
    register_service = AS(RegisterService, named(computenetwork, "HcnRegisterServiceCallback"));
    unregister_service = AS(Close, named(computenetwork, "HcnUnregisterServiceCallback"));
    register_network = AS(RegisterObject, named(computenetwork, "HcnRegisterNetworkCallback"));
    unregister_network = AS(Close, named(computenetwork, "HcnUnregisterNetworkCallback"));
    register_guest = AS(RegisterObject, named(computenetwork, "HcnRegisterGuestNetworkServiceCallback"));
    unregister_guest = AS(Close, named(computenetwork, "HcnUnregisterGuestNetworkServiceCallback"));
    reserve_port = AS(ReservePort, named(computenetwork, "HcnReserveGuestNetworkServicePort"));
    reserve_range = AS(ReserveRange, named(computenetwork, "HcnReserveGuestNetworkServicePortRange"));
    release_port = AS(Close, named(computenetwork, "HcnReleaseGuestNetworkServicePortReservationHandle"));
    enumerate_reservations = AS(EnumerateReservations, named(computenetwork, "HcnEnumerateGuestNetworkPortReservations"));
    free_reservations = AS(FreeReservations, named(computenetwork, "HcnFreeGuestNetworkPortReservations"));
    hns_call = AS(HnsCall, named(vmcompute, "HNSCall"));
    hcs_enumerate = AS(Enumerate, named(vmcompute, "HcsEnumerateComputeSystems"));
    hcs_create = AS(HcsCreate, named(vmcompute, "HcsCreateComputeSystem"));
    for (size_t at = 0; at < sizeof absent / sizeof *absent; at++) {
        /* Up to five parameters, all NULL: each says that it is not implemented. */
        typedef HRESULT(WINAPI * Five)(void *, void *, void *, void *, void *);
        expect(AS(Five, named(vmcompute, absent[at]))(NULL, NULL, NULL, NULL, NULL), HR_NOTIMPL, absent[at]);
    }
}

int main(int count, char **arguments) {
    unsigned seconds = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 60;
    HANDLE threads[THREADS];
    PWSTR out = GARBAGE, record = GARBAGE;
    Handle handle = GARBAGE;
    HRESULT found;
    const GUID none = {0};

    load_all();
    make_pages();
    CoRegisterMallocSpy(&spy);
    LONG64 blocks_start = blocks;

    found = family[NETWORK].create(&none,
        L"{\"Name\":\"exports\",\"Type\":\"NAT\",\"Ipams\":[{\"Type\":\"Static\",\"Subnets\":[{\"IpAddressPrefix\":\"10.77.0.0/16\","
        L"\"Routes\":[{\"DestinationPrefix\":\"0.0.0.0/0\",\"NextHop\":\"10.77.0.1\"}]}]}],\"SchemaVersion\":{\"Major\":2,\"Minor\":2}}",
        &network, &record);
    if (found < 0) {
        printf("no network can be made: 0x%08lX %ls\n", (unsigned long)found, record ? record : L"");
        return 2;
    }
    found = family[NETWORK].query(network, V2, &out, &record);
    if (blocks != blocks_start + 1) fail("one text is out, and %lld blocks are counted", (long long)(blocks - blocks_start));
    PWSTR at = found < 0 ? NULL : wcsstr(out, L"\"ID\":\"");
    WCHAR braces[40] = L"{";
    if (at) wcsncat(braces, at + 6, 36);
    wcscat(braces, L"}");
    if (!at || CLSIDFromString(braces, &network_id) != S_OK) {
        printf("the network has no id\n");
        return 2;
    }
    CoTaskMemFree(out);

    out = record = GARBAGE;
    found = family[NETWORK].enumerate(page.endless, &out, &record);
    text_out(found, HR_INVALID, out, record, NULL, "a text without an end");
    VirtualFree(page.endless, 0, MEM_RELEASE);

    /* What is made once, is made: threads, connections, tables. */
    for (unsigned round = 0; round < 12; round++) {
        right_arguments(THREADS, round);
        wrong_arguments(round);
    }
    LONG64 blocks_before = blocks;
    SIZE_T heap_before = heap_in_use();
    DWORD handles_before = handles_open();
    for (unsigned number = 0; number < THREADS; number++)
        threads[number] = CreateThread(NULL, 0, work, (void *)(UINT_PTR)number, 0, NULL);
    Sleep(seconds * 1000);
    InterlockedExchange(&stop, 1);
    WaitForMultipleObjects(THREADS, threads, TRUE, INFINITE);
    for (unsigned number = 0; number < THREADS; number++) CloseHandle(threads[number]);
    DWORD handles_after = handles_open();
    SIZE_T heap_after = heap_in_use();
    LONG64 blocks_after = blocks;

    if (blocks_before != blocks_start || blocks_after != blocks_start)
        fail("task memory: %lld blocks at first, %lld after the first rounds, %lld at the end", (long long)blocks_start,
             (long long)blocks_before, (long long)blocks_after);
    if (handles_after > handles_before + HANDLE_SLACK)
        fail("handles: %lu before, %lu after", (unsigned long)handles_before, (unsigned long)handles_after);
    if (heap_after > heap_before + HEAP_SLACK)
        fail("heap: %llu bytes before, %llu after", (unsigned long long)heap_before, (unsigned long long)heap_after);

    /* The library stays while its threads run, whatever its loader says. A callback is left registered on purpose. */
    expect(register_service(count_notification, (void *)&notifications, &handle), S_OK, "RegisterServiceCallback");
    FreeLibrary(computenetwork);
    FreeLibrary(vmcompute);
    record = GARBAGE;
    found = family[NETWORK].delete(&network_id, &record);
    recorded(found, S_OK, record, "the network");
    expect(family[NETWORK].close(network), S_OK, "the network's handle");
    if (notifications == 0) fail("no notification came");
    CoRevokeMallocSpy();

    printf("%s: %lld calls, %ld wrong, %lld notifications in %u s with %d threads; task memory %+lld blocks, handles %lu to "
           "%lu, heap %+lld bytes\n",
           failures ? "FAILED" : "ok", (long long)calls, (long)failures, (long long)notifications, seconds, THREADS,
           (long long)(blocks_after - blocks_start), (unsigned long)handles_before, (unsigned long)handles_after,
           (long long)heap_after - (long long)heap_before);
    return failures ? 1 : 0;
}
