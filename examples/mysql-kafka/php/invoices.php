<?php

// Invoices for the orders that come, one for each however often it comes, with PDO (Debian: php-cli php-mysql).
//
//   DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop php invoices.php 018f3f6e-0000-4000-8000-000000000007 7
//
// The id is what the message has in its header `postrider-id`; the number is the order's. `postrider migrate --store
// "$DATABASE_URL"` made the inbox.

declare(strict_types=1);

require __DIR__ . '/Inbox.php';
require __DIR__ . '/connect.php';

/** Writes the invoice and the record of the message: both are committed, or neither. Acknowledge it after that. */
function handle(PDO $pdo, Inbox $inbox, string $id, int $order): bool
{
    $pdo->beginTransaction();
    try {
        $first = $inbox->firstSeen('billing', $id);
        if ($first) {
            $pdo->prepare('insert into invoices (order_id) values (?)')->execute([$order]);
        }
        $pdo->commit();
        return $first;
    } catch (Throwable $failure) {
        $pdo->rollBack();
        throw $failure;
    }
}

if ($argc !== 3 || getenv('DATABASE_URL') === false) {
    fwrite(STDERR, "expected: DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop php invoices.php MESSAGE_ID ORDER_ID\n");
    exit(2);
}
$pdo = connect(getenv('DATABASE_URL'));
$pdo->exec('create table if not exists invoices (id bigint auto_increment primary key, order_id bigint not null)');
$first = handle($pdo, new Inbox($pdo), $argv[1], (int) $argv[2]);
echo $first ? 'invoiced' : 'was invoiced before', "\n";
