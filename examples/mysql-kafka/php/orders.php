<?php

// Orders and the messages about them, in one transaction each, with PDO (Debian: php-cli php-mysql).
//
//   DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop php orders.php 300
//
// The number is the first order's. `postrider migrate --store "$DATABASE_URL"` made the outbox, and schema.sql the
// table of orders.

declare(strict_types=1);

require __DIR__ . '/Outbox.php';
require __DIR__ . '/connect.php';

/** Writes the order and its message: both are committed, or neither. */
function place(PDO $pdo, Outbox $outbox, array $order): void
{
    $pdo->beginTransaction();
    try {
        $pdo->prepare('insert into orders (id, customer, item) values (:id, :customer, :item)')->execute($order);
        // The key is the customer: the messages of a customer keep their order.
        $outbox->enqueue(
            'orders.placed',
            $order['customer'],
            json_encode($order, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE),
            ['correlation-id' => (string) $order['id']],
        );
        $pdo->commit();
    } catch (Throwable $failure) {
        $pdo->rollBack();
        throw $failure;
    }
}

if ($argc !== 2 || getenv('DATABASE_URL') === false) {
    fwrite(STDERR, "expected: DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop php orders.php FIRST_ID\n");
    exit(2);
}
$pdo = connect(getenv('DATABASE_URL'));
$outbox = new Outbox($pdo);
$first = (int) $argv[1];
foreach (['ann-php', 'bob-php', 'ann-php'] as $number => $customer) {
    place($pdo, $outbox, ['id' => $first + $number, 'customer' => $customer, 'item' => 'Tür']);
}
