// Inventory: reads the messages about orders from Kafka with KafkaJS, and takes each order's item from the shelf once.
//
//   npm ci
//   KAFKA=127.0.0.1:9092 node inventory.js           until it is stopped
//   KAFKA=127.0.0.1:9092 node inventory.js 15        until it has seen 15 messages
//   KAFKA=127.0.0.1:9092 node inventory.js create    creates the topic and ends
//
// A message may come more than once, with the same id in the header `postrider-id`. So what is done and the id that was
// seen belong together; here both are in memory, in earnest in one transaction of a database.

import { Kafka, logLevel } from 'kafkajs';

const TOPIC = 'orders.placed';
const kafka = new Kafka({ clientId: 'inventory', brokers: process.env.KAFKA.split(','), logLevel: logLevel.ERROR });

async function create() {
  const admin = kafka.admin();
  await admin.connect();
  const created = await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 3 }] });
  await admin.disconnect();
  console.log(`inventory: topic ${TOPIC} ${created ? 'is created' : 'is there'}`);
}

async function read(most) {
  const consumer = kafka.consumer({ groupId: 'inventory' });
  await consumer.connect();
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
  const seen = new Set();
  let enough;
  const hadEnough = new Promise((resolve) => (enough = resolve));
  await consumer.run({
    eachMessage: async ({ message }) => {
      const id = message.headers['postrider-id'].toString();
      if (seen.has(id) || seen.size >= most) return;
      seen.add(id);
      const order = JSON.parse(message.value);
      console.log(`inventory: order ${order.id} of ${message.key}: ${order.item}`);
      if (seen.size >= most) enough();
    },
  });
  await hadEnough;
  await consumer.disconnect();
}

const [what] = process.argv.slice(2);
await (what === 'create' ? create() : read(Number(what ?? Infinity)));
