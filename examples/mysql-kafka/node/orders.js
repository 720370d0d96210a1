// Orders and the messages about them, in one transaction each, with mysql2.
//
//   npm ci
//   DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop node orders.js 200
//
// The number is the first order's. `postrider migrate --store "$DATABASE_URL"` made the outbox, and schema.sql the
// table of orders.

import mysql from 'mysql2/promise';

const ORDER = 'insert into orders (id, customer, item) values (?, ?, ?)';
const ENQUEUE = `
  insert into postrider_outbox (topic, \`key\`, payload, content_type, headers)
  values (?, ?, ?, 'application/json', ?)`;

// Writes the order and its message: both are committed, or neither. With a pool, take one connection of it for both
// (`pool.getConnection()`): every `pool.execute` may use another one.
async function place(connection, order) {
  await connection.beginTransaction();
  try {
    await connection.execute(ORDER, [order.id, order.customer, order.item]);
    await connection.execute(ENQUEUE, [
      'orders.placed',
      order.customer, // the key: the messages of a customer keep their order
      Buffer.from(JSON.stringify(order)), // bytes: a string would be converted to the connection's character set
      JSON.stringify({ 'correlation-id': String(order.id) }),
    ]);
    await connection.commit();
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}

const connection = await mysql.createConnection({ uri: process.env.DATABASE_URL });
try {
  let id = Number(process.argv[2]);
  for (const customer of ['ann-js', 'bob-js', 'ann-js']) {
    await place(connection, { id: id++, customer, item: 'Tür' });
  }
} finally {
  await connection.end();
}
