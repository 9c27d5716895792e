"""Word lists for features of English mentions: pronouns, gendered nouns, titles, first names, verbs of speech."""

from __future__ import annotations


def _word_set(words: str) -> frozenset[str]:
    """Return the words of a string."""
    return frozenset(words.split())


MALE, FEMALE, THING = 1, 2, 3
SINGULAR, PLURAL = 1, 2
SUBJECT, OBJECT, POSSESSIVE, REFLEXIVE = 1, 2, 3, 4

# Person, number, gender (0: unknown) of pronouns. Forms in the order subject, object, possessive, reflexive.
_PARADIGMS = (
    ("i", "me", "my mine", "myself", (1, SINGULAR, 0)),
    ("we", "us", "our ours", "ourselves ourself", (1, PLURAL, 0)),
    ("you ye thou", "thee yeh ya", "your yours thy thine yer", "yourself yourselves thyself", (2, 0, 0)),
    ("he", "him", "his", "himself hisself", (3, SINGULAR, MALE)),
    ("she", "", "her hers", "herself", (3, SINGULAR, FEMALE)),
    ("it", "", "its", "itself", (3, SINGULAR, THING)),
    ("they", "them 'em", "their theirs", "themselves", (3, PLURAL, 0)),
    ("who", "whom", "whose", "", (0, 0, 0)),
    ("one", "", "", "oneself", (3, SINGULAR, 0)),
)
PRONOUNS = {
    word: (*agreement, form)
    for *forms, agreement in _PARADIGMS
    for form, words in enumerate(forms, 1)
    for word in str(words).split()
}
# Class of a pronoun from 0: its row in the table above; the number of classes is the class of all other words.
PRONOUN_CLASS = {
    word: row for row, (*forms, _) in enumerate(_PARADIGMS) for words in forms for word in str(words).split()
}
N_PRONOUN_CLASSES = len(_PARADIGMS)

_MEN = (
    "mr mister sir man boy lord king prince father uncle brother son husband gentleman captain master fellow lad "
    "monsieur grandfather nephew count duke baron emperor priest parson colonel major general lieutenant sergeant "
    "squire knight esq bishop abbot monk papa dad daddy chap bridegroom groom butler footman coachman soldier sailor "
    "policeman clergyman nobleman workman fisherman hunter waiter actor host hero god bachelor widower stepfather "
    "godfather grandson señor don herr signor earl marquis viscount friar rev reverend guy"
)
_WOMEN = (
    "mrs miss ms madam lady woman girl queen princess mother aunt sister daughter wife madame mistress maid "
    "grandmother niece countess duchess widow nurse governess mamma mama mum bride housekeeper housemaid waitress "
    "actress hostess heroine goddess nun abbess dame lass lassie maiden damsel stepmother godmother granddaughter "
    "mademoiselle señora señorita frau fräulein signora baroness empress spinster sempstress milkmaid ma'am aunty "
    "auntie granny ladyship"
)
_MALE_NAMES = (
    "john james william robert charles george thomas henry joseph edward david richard daniel samuel peter paul mark "
    "michael arthur frank walter harry jack tom dick bob jim joe bill sam ben will ned fred frederick philip francis "
    "hugh stephen andrew matthew luke adam edmund ralph roger oliver nicholas martin albert alfred edgar ernest simon "
    "anthony lewis louis leonard gilbert tim timothy jacob isaac abraham aaron moses gabriel patrick oscar theodore "
    "archibald laurence lawrence jonathan benjamin christopher alexander"
)
_FEMALE_NAMES = (
    "mary elizabeth anne ann anna jane sarah margaret alice emma ellen catherine katherine kate kitty lucy martha "
    "helen emily charlotte harriet caroline fanny julia susan maria grace rose ruth rachel rebecca dorothy clara "
    "florence laura lydia sophia louisa agnes edith eleanor amelia isabel isabella bertha bella bessie betty nancy "
    "molly polly jenny sally peggy hannah esther judith marian marianne annie amy beth meg jo ethel hilda gertrude "
    "frances georgiana josephine victoria virginia sylvia diana eliza lizzie nelly nellie daisy lily violet ivy"
)
GENDERS = dict.fromkeys((_MEN + " " + _MALE_NAMES).split(), MALE) | dict.fromkeys(
    (_WOMEN + " " + _FEMALE_NAMES).split(), FEMALE
)
PLURAL_HEADS = _word_set(
    "men women children people folk folks boys girls friends parents ladies gentlemen persons others both all many "
    "several few brothers sisters brethren cattle police wives feet"
)
GROUPS = _word_set("family crowd company party army group crew couple pair race class band government nation")
SMALL_WORDS = _word_set(
    "the a an this that these those my your his her its our their some any no every and of 's ' , . \" `` '' - -- in "
    "on at to for with very such same own"
)
# The head of a mention is the word before the first of these.
HEAD_ENDS = _word_set(
    "of in at on from with who whom which that to for by near , ; -- ( under over upon without among between "
    "against behind about whose where when as like after before into"
)
TITLES = _word_set(
    "mr mrs miss ms sir lady lord dr doctor captain colonel major general professor judge aunt uncle madame "
    "monsieur madam mister st rev reverend king queen prince princess count countess duke duchess master father "
    "mother brother sister squire lieutenant sergeant"
)
DEFINITE = _word_set("the")
INDEFINITE = _word_set("a an some any no every each another one two three four five six many several few")
DEMONSTRATIVE = _word_set("this that these those such")
POSSESSIVES = frozenset(word for word, facts in PRONOUNS.items() if facts[3] == POSSESSIVE)
SPEECH_VERBS = _word_set(
    "said says say asked asks replied replies cried cries answered answers exclaimed remarked whispered shouted "
    "returned murmured muttered observed continued added began called declared demanded explained inquired enquired "
    "interrupted repeated rejoined responded thought told sighed laughed gasped ejaculated growled screamed"
)
COPULAS = _word_set("is was are were am be been being became become seemed")
OPENING_QUOTES = frozenset(("``", "“", "‘‘"))
CLOSING_QUOTES = frozenset(("''", "”", "’’"))
EITHER_QUOTES = frozenset(('"',))
