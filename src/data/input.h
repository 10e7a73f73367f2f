/* Examples of one's own, without labels, as a split that a trained model can be asked about.
 *
 *   PNG         a picture of the task's size, grey or in colour: image, pathfinder, pathx, custom
 *   text        all of a file; with `lines` each of its lines: text, custom
 *   pairs       a line of two columns between TABs, or of LRA's five: retrieval, and custom pairs
 *   expressions a line each, with LRA's parentheses or without; a header and targets behind a TAB
 *               are passed over: listops
 *   numbers     a line of ids between blanks, of a pair two such columns: custom, where the set
 *               that was trained on does not say that they are bytes or pixels
 *
 * of a file, of standard input, or, where an example is a file, of a directory's. Blank lines are
 * passed over. A prepared split can be given too, with labels, which are not looked at, or
 * without. */
#ifndef DATA_INPUT_H
#define DATA_INPUT_H

#include "data/task.h"

typedef struct InputAsked {
    const char *from; /* a file, a directory, or "-": standard input */
    bool lines;
    int split; /* of a directory of prepared ones; -1: not said, test */
    const Task *task;
    int vocab, classes; /* the model's: data may leave them open */
    int per_example;
    int side; /* of a picture */
    int most; /* tokens that the model reads: no more than one besides is kept of a text that is a
                 whole file */
} InputAsked;

typedef struct Input {
    Dataset set;
    DatasetWriter *made; /* what holds the set; NULL: a file does */
    char **name;         /* (n) where each is from: "a.png", "line 3" */
    int n;
    size_t cap;
} Input;

/* EX_NOINPUT: it is not there, or holds no example; EX_DATAERR: an example is wrong, or a prepared
 * split damaged; EX_USAGE: `lines`, or a split, of what has none. On error nothing is to be closed.
 * Who closes the set leaves an empty one behind. */
bool input_open(Input *in, const InputAsked *asked, Err *err);
void input_close(Input *in);

#endif
