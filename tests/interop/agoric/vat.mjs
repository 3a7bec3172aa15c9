// Hosts comms vats of @agoric/swingset-vat, the first implementation of the drop/retire protocol, for vat_end.py, which
// plays their kernels and their transport.
//
//   node vat.mjs FOLDER        FOLDER holds node_modules
//
// One JSON object per line of stdin, answered by one on stdout:
//   {lines: [...],     what the vat transmits: "SEQ:ACK:BODY"
//    events: [...],    its other system calls: ["send", target, body, slots, result],
//                      ["resolve", [[promise, rejected, body, slots]...]],
//                      ["subscribe" | "dropImports" | "retireImports" | "retireExports", refs]
//    said: "...",      what it printed: it swallows its peer's faults and only tells of them
//    value: ...}       what was asked for
// or {failed: "...", said: "..."}: the vat threw, which would be its end.
//
// What can be asked, each with "vat": NAME
//   {ask: "start"}                            a new vat of that name, with one connection
//   {ask: "egress", index, object}            the kernel's object is known to the peer under that index from the start
//   {ask: "ingress", index}                   the other way; value: the kernel's name of it
//   {ask: "send", target, body, slots, result}
//   {ask: "notify", resolutions}              [[promise, rejected, body, slots]...]
//   {ask: "dropExports" | "retireExports", refs}
//   {ask: "receive", line}
//   {ask: "tables"}                           value: {kernel, remote: names in the c-lists; waiting: how many promises
//                                             are not retired yet}
import { Console } from 'node:console';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

// The console that the vats' world wraps is taken when that world begins; stdout is for answers.
let said = '';
const ear = new Writable({
  write(chunk, encoding, done) {
    said += chunk;
    done();
  },
});
globalThis.console = new Console(ear, ear);

const from = createRequire(pathToFileURL(`${process.argv[2]}/from-here.js`));
const load = name => import(pathToFileURL(from.resolve(name)));
await load('@endo/init');
const { kser, kslot, kunser, krefOf } = await load('@agoric/kmarshal');
const { default: buildComms } = await load('@agoric/swingset-vat/src/vats/comms/index.js');

const TRANSMITTER = 'o-1';
const SET_RECEIVER = 'o-2';
const ANSWER = 'p-1'; // of calls to the vat's controller: one at a time, resolved within the call

class Vat {
  constructor() {
    this.store = new Map();
    this.lines = [];
    this.events = [];
    this.dispatch = buildComms(harden(this.systemCalls()), undefined, undefined, {});
    this.dispatch(harden(['startVat', kser({ identifierBase: 0, sendExplicitSeqNums: true })]));
    this.control('addRemote', ['peer', kslot(TRANSMITTER), kslot(SET_RECEIVER)]);
  }

  systemCalls() {
    const { store } = this;
    const tell = name => refs => void this.events.push([name, refs]);
    return {
      vatstoreGet: key => store.get(key),
      vatstoreSet: (key, value) => void store.set(key, value),
      vatstoreDelete: key => void store.delete(key),
      send: (target, methargs, result) => this.heard(target, methargs, result),
      resolve: resolutions => this.told(resolutions),
      subscribe: tell('subscribe'),
      dropImports: tell('dropImports'),
      retireImports: tell('retireImports'),
      retireExports: tell('retireExports'),
    };
  }

  heard(target, methargs, result) {
    if (target === TRANSMITTER) {
      this.lines.push(kunser(methargs)[1][0]);
    } else if (target === SET_RECEIVER) {
      this.receiver = krefOf(kunser(methargs)[1][0]);
    } else {
      this.events.push(['send', target, methargs.body, methargs.slots, result ?? null]);
    }
  }

  told(resolutions) {
    const flat = resolutions.map(([promise, rejected, data]) => [promise, rejected, data.body, data.slots]);
    if (flat[0][0] === ANSWER) {
      this.answer = flat[0][3][0];
    } else {
      this.events.push(['resolve', flat]);
    }
  }

  message(target, methargs, result) {
    this.dispatch(harden(['message', target, { methargs, result }]));
  }

  control(method, values) {
    this.answer = undefined;
    this.message('o+0', kser([method, values]), ANSWER);
    return this.answer;
  }

  tables() {
    const names = pattern => [...this.store.keys()].flatMap(key => pattern.exec(key)?.[1] ?? []).sort();
    return {
      kernel: names(/^c\.([op][+-]\d+)$/),
      remote: names(/^r1\.c\.(r[op][+-]\d+)$/),
      waiting: JSON.parse(this.store.get('r1.rq')).length,
    };
  }

  ask({ ask, ...rest }) {
    switch (ask) {
      case 'start':
        return undefined;
      case 'egress':
        return this.control('addEgress', ['peer', BigInt(rest.index), kslot(rest.object)]);
      case 'ingress':
        return this.control('addIngress', ['peer', rest.index]);
      case 'send':
        return this.message(rest.target, { body: rest.body, slots: rest.slots }, rest.result ?? undefined);
      case 'notify': {
        const all = rest.resolutions.map(([promise, rejected, body, slots]) => [promise, rejected, { body, slots }]);
        return this.dispatch(harden(['notify', all]));
      }
      case 'dropExports':
      case 'retireExports':
        return this.dispatch(harden([ask, rest.refs]));
      case 'receive':
        return this.message(this.receiver, kser(['receive', [rest.line]]));
      case 'tables':
        return this.tables();
      default:
        throw Error(`unknown request ${ask}`);
    }
  }
}

const vats = new Map();

function answer({ vat: name, ...request }) {
  said = '';
  try {
    if (request.ask === 'start') {
      vats.set(name, new Vat());
    }
    const vat = vats.get(name);
    vat.lines = [];
    vat.events = [];
    const value = vat.ask(request);
    return { lines: vat.lines, events: vat.events, said, value };
  } catch (error) {
    console.error(error); // with what its message hides
    return { failed: String(error), said };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
}
